// What the UNet promises: cuts, batches, threads and paddings change no bit,
// also where a side is odd at some level.

#include <algorithm>

#include "kernels/linear.h"
#include "models/network/boundary_skips.h"
#include "models/unet/unet.h"
#include "tests/models/helpers.h"
#include "tests/models/unet_fixtures.h"

namespace troupe::models {
namespace {

struct UNetCase {
  std::string name;
  DType compute = DType::f32;
  bool with_sizes = false;
  std::int64_t head_dim = 12;
  Shape shape = {4, 8, 8};

  friend void PrintTo(const UNetCase& way, std::ostream* out) {
    *out << way.name;
  }
};

class UNetBits : public testing::TestWithParam<UNetCase> {
 protected:
  void SetUp() override {
    if (!kernels::supports(GetParam().compute)) {
      GTEST_SKIP() << "no bf16 on this processor";
    }
  }

  [[nodiscard]] static UNetConfig config() {
    return small_unet_config(GetParam().with_sizes, GetParam().head_dim);
  }
  [[nodiscard]] static std::unique_ptr<Denoiser> make(
      ExecContext& ctx, SegmentRange segment = {}) {
    return small_unet(ctx, config(), GetParam().compute, segment);
  }
  [[nodiscard]] static DenoiserInfo info() {
    return describe(config())->info(GetParam().shape, GetParam().compute);
  }
  [[nodiscard]] static Rows rows_for(ExecContext& ctx, const Denoiser& unet,
                                     int count,
                                     const Shape& shape = GetParam().shape) {
    return unet_rows(ctx, unet, config(), count, shape);
  }
};

// Each segment has an instance of its own, with its own prepared prompts.
TEST_P(UNetBits, StayTheSameWhereverTheBlocksAreCut) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = make(ctx);
  const int count = UNetLayout(config()).size();
  const auto expected = predict(ctx, *full, rows_for(ctx, *full, 3));
  std::size_t most = 0;
  for (int cut = 0; cut <= count; ++cut) {
    std::vector<Boundary> boundaries(3);
    const auto first = cut > 0 ? make(ctx, {0, cut}) : make(ctx);
    const Rows outer = rows_for(ctx, *first, 3);
    first->embed(ctx, whole, outer.batch(), boundaries);
    first->run_blocks(ctx, whole, outer.batch(), 0, cut, boundaries);
    if (cut < count) {
      EXPECT_EQ(bytes_of(boundaries[0]), info().boundary_bytes(cut)) << cut;
    }
    most = std::max(most, bytes_of(boundaries[0]));
    const auto second = cut < count ? make(ctx, {cut, count}) : make(ctx);
    const Rows inner = rows_for(ctx, *second, 3);
    Batch batch = inner.batch();
    batch.latents = {};
    second->run_blocks(ctx, whole, batch, cut, count, boundaries);
    auto outputs = outputs_for(*second, inner.latents);
    second->finish(ctx, whole, batch, boundaries, outputs);
    expect_same(outputs, expected);
  }
  EXPECT_EQ(most, info().boundary_bytes());
}

/// Of segments at `cuts`, the first of which have their mirrors among the last.
/// Skips between a segment and its mirror bypass the other segments.
std::vector<Tensor> predict_mirrored(ExecContext& ctx, const UNetConfig& config,
                                     DType compute, const Rows& rows,
                                     const std::vector<int>& cuts) {
  ShardContext whole;
  const Shape shape = rows.latents.front().shape();
  const DenoiserInfo info = describe(config)->info(shape, compute);
  const std::size_t count = cuts.size() - 1;
  const std::size_t inner = count / 2;
  std::vector<Boundary> crossing(rows.latents.size());
  std::vector<std::vector<Boundary>> kept(inner);
  std::vector<Tensor> outputs;
  for (std::size_t s = 0; s < count; ++s) {
    const auto part = small_unet(ctx, config, compute, {cuts[s], cuts[s + 1]});
    const Rows its =
        unet_rows(ctx, *part, config, static_cast<int>(crossing.size()), shape);
    if (s == 0) {
      part->embed(ctx, whole, its.batch(), crossing);
    }
    for (std::size_t r = 0; s > inner && r < crossing.size(); ++r) {
      crossing[r] =
          join_skips(std::move(kept[count - 1 - s][r]), std::move(crossing[r]));
    }
    part->run_blocks(ctx, whole, its.batch(), cuts[s], cuts[s + 1], crossing);
    for (std::size_t r = 0; s < inner && r < crossing.size(); ++r) {
      auto [hidden, skips] = split_skips(crossing[r]);
      // The next segment works in place.
      hidden[0].tensor = hidden[0].tensor.clone();
      crossing[r] = std::move(hidden);
      kept[s].push_back(std::move(skips));
    }
    if (s + 1 < count) {
      EXPECT_EQ(bytes_of(crossing[0]), info.hidden_bytes(cuts[s + 1]));
      continue;
    }
    outputs = outputs_for(*part, its.latents);
    part->finish(ctx, whole, its.batch(), crossing, outputs);
  }
  return outputs;
}

TEST_P(UNetBits, StayTheSameWhereSkipsStayWithTheSegmentThatMadeThem) {
  ExecContext ctx;
  const auto full = make(ctx);
  const Rows rows = rows_for(ctx, *full, 3);
  const auto expected = predict(ctx, *full, rows);
  const int count = UNetLayout(config()).size();
  std::vector<int> outer = {0};  // the most parts
  std::vector<int> inner = {count};
  for (int cut = 1; cut < count / 2; ++cut) {
    const std::vector<int> two = {0, cut, count - 1 - cut, count};
    expect_same(predict_mirrored(ctx, config(), GetParam().compute, rows, two),
                expected);
    outer.push_back(cut);
    inner.insert(inner.begin(), count - 1 - cut);
  }
  outer.insert(outer.end(), inner.begin(), inner.end());
  expect_same(predict_mirrored(ctx, config(), GetParam().compute, rows, outer),
              expected);
}

TEST_P(UNetBits, OfARowDoNotDependOnBatchPositionOrThreads) {
  ExecContext one(1);
  ExecContext three(3);
  const auto unet = make(one);
  const Rows rows = rows_for(one, *unet, 6);
  const auto together = predict(one, *unet, rows);
  expect_same(predict(three, *unet, rows_for(three, *unet, 6)), together);
  Rows reversed;
  for (int i = 5; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    reversed.add(three, *unet, rows.latents[at], rows.timesteps[at],
                 unet_condition(config(), at, 1 + 7 * i));
  }
  const auto backward = predict(three, *unet, reversed);
  for (std::size_t i = 0; i < 6; ++i) {
    Rows alone;
    alone.add(one, *unet, rows.latents[i], rows.timesteps[i],
              unet_condition(config(), i, 1 + 7 * static_cast<int>(i)));
    EXPECT_TRUE(bytes_equal(predict(one, *unet, alone)[0], together[i])) << i;
    EXPECT_TRUE(bytes_equal(backward[5 - i], together[i])) << i;
  }
}

TEST_P(UNetBits, DoNotDependOnThePadding) {
  ExecContext ctx;
  const auto unet = make(ctx);
  Rows rows;
  for (const std::int64_t padding : {0, 1, 50}) {
    rows.add(ctx, *unet, latents_of_row(0, GetParam().shape), 500.0,
             unet_condition(config(), 3, 7, padding));
  }
  const auto outputs = predict(ctx, *unet, rows);
  EXPECT_TRUE(bytes_equal(outputs[1], outputs[0]));
  EXPECT_TRUE(bytes_equal(outputs[2], outputs[0]));
}

TEST_P(UNetBits, AreTheSameForAnnouncedTimesteps) {
  ExecContext ctx;
  const auto unet = make(ctx);
  const Rows rows = rows_for(ctx, *unet, 3);
  const auto want = predict(ctx, *unet, rows);
  Rows announced = rows;
  for (std::size_t i = 0; i < 2; ++i) {  // the third row is computed
    const std::vector<double> timesteps = {1.0, rows.timesteps[i], 500.0, 1.0};
    announced.prepared[i] = unet->prepare(
        ctx, unet_condition(config(), i, 1 + 7 * static_cast<int>(i)),
        timesteps);
    announced.conditions[i] = announced.prepared[i].get();
    EXPECT_EQ(
        announced.prepared[i]->num_bytes(),
        rows.prepared[i]->num_bytes() + 3 * unet->info().bytes_per_timestep);
  }
  expect_same(predict(ctx, *unet, announced), want);
}

TEST_P(UNetBits, FollowEverythingThatTheNetworkIsGiven) {
  ExecContext ctx;
  const auto unet = make(ctx);
  const Shape shape = GetParam().shape;
  const Condition condition = unet_condition(config(), 1, 8);
  const auto with = [&](const char* name) {
    Condition changed;
    for (const ConditionTensor& item : condition.tensors()) {
      Tensor tensor = item.tensor.clone();
      if (item.name == name) {
        tensor.data<float>()[tensor.num_elements() - 1] += 1.0F;
      }
      changed.add(item.name, std::move(tensor), item.length);
    }
    return changed;
  };
  Rows rows;
  rows.add(ctx, *unet, latents_of_row(0, shape), 500.0, condition);
  rows.add(ctx, *unet, latents_of_row(1, shape), 500.0, condition);
  rows.add(ctx, *unet, latents_of_row(0, shape), 501.0, condition);
  for (const ConditionTensor& item : condition.tensors()) {
    rows.add(ctx, *unet, latents_of_row(0, shape), 500.0,
             with(item.name.c_str()));
  }
  const auto outputs = predict(ctx, *unet, rows);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    EXPECT_FALSE(bytes_equal(outputs[i], outputs[0])) << i;
  }
}

TEST_P(UNetBits, OfAnyRectangleAreThoseOfPieces) {
  ExecContext ctx;
  ShardContext shard;
  const auto unet = make(ctx);
  const int count = UNetLayout(config()).size();
  for (const Shape& shape :
       {Shape{4, 4, 16}, Shape{4, 16, 4}, Shape{4, 4, 4}, Shape{4, 12, 20},
        Shape{4, 1, 1}, Shape{4, 1, 6}, Shape{4, 5, 3}, Shape{4, 9, 13}}) {
    const Rows rows = rows_for(ctx, *unet, 2, shape);
    std::vector<Boundary> boundaries(2);
    unet->embed(ctx, shard, rows.batch(), boundaries);
    for (int i = 0; i < count; ++i) {
      unet->run_blocks(ctx, shard, rows.batch(), i, i + 1, boundaries);
    }
    auto cut = outputs_for(*unet, rows.latents);
    unet->finish(ctx, shard, rows.batch(), boundaries, cut);
    expect_same(cut, predict(ctx, *unet, rows));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Compute, UNetBits,
    testing::Values(UNetCase{"f32"}, UNetCase{"f32_sizes", DType::f32, true},
                    UNetCase{"bf16", DType::bf16},
                    UNetCase{"bf16_tiles", DType::bf16, true, 32},
                    UNetCase{"f32_odd", DType::f32, false, 12, {4, 7, 5}},
                    UNetCase{"f32_odd_inside", DType::f32, true, 12, {4, 6, 9}},
                    UNetCase{"bf16_odd", DType::bf16, true, 32, {4, 5, 11}}),
    [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace troupe::models
