#include <array>

#include "models/network/boundary_skips.h"
#include "models/network/diagnose.h"
#include "tests/models/helpers.h"
#include "tests/models/pixart_fixtures.h"

namespace troupe::models {
namespace {

constexpr int kBlocks = 5;  // two of them make a skip, two take one

Json small_json(std::int64_t head_dim = 12, bool conv = false) {
  return Json::parse(
      R"({"_class_name":"UViT","img_size":10,"patch_size":2,"in_chans":4,
          "depth":4,"num_heads":3,"num_classes":8,"embed_dim":)" +
          std::to_string(3 * head_dim) + R"(,"conv":)" +
          (conv ? "true" : "false") + "}",
      "config.json");
}

std::unique_ptr<DenoiserDescription> described(const Json& json) {
  return find_denoiser(json, "UViT").describe(json);
}

class UVitBits : public DitTest {
 protected:
  /// With a last convolution in one of the cases.
  [[nodiscard]] static std::unique_ptr<DenoiserDescription> description() {
    return described(
        small_json(GetParam().head_dim, GetParam().compute == DType::f32));
  }
  [[nodiscard]] static std::unique_ptr<Denoiser> make(
      ExecContext& ctx, SegmentRange segment = {}) {
    return load_random(ctx, *description(), GetParam().compute, segment);
  }
};

TEST_P(UVitBits, StayTheSameWhereverTheBlocksAreCut) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = make(ctx);
  const auto expected = predict(ctx, *full, small_rows(ctx, *full, 3));
  const DenoiserInfo info = full->info();
  ASSERT_EQ(info.blocks.size(), kBlocks);
  for (int cut = 1; cut < kBlocks; ++cut) {
    const auto first = make(ctx, {0, cut});
    const auto second = make(ctx, {cut, kBlocks});
    const Rows of_first = small_rows(ctx, *first, 3);
    const Rows of_second = small_rows(ctx, *second, 3);
    std::vector<Boundary> boundaries(3);
    first->embed(ctx, whole, of_first.batch(), boundaries);
    first->run_blocks(ctx, whole, of_first.batch(), 0, cut, boundaries);
    EXPECT_EQ(bytes_of(boundaries[2]), info.boundary_bytes(cut)) << cut;
    second->run_blocks(ctx, whole, of_second.batch(), cut, kBlocks, boundaries);
    auto outputs = outputs_for(*full, of_second.latents);
    second->finish(ctx, whole, of_second.batch(), boundaries, outputs);
    expect_same(outputs, expected);
  }
}

// As an onion: the outer segment keeps its skip.
TEST_P(UVitBits, StayTheSameWhereSkipsStayWithTheirMaker) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = make(ctx);
  const Rows rows = small_rows(ctx, *full, 2);
  std::vector<Boundary> boundaries(2);
  full->embed(ctx, whole, rows.batch(), boundaries);
  full->run_blocks(ctx, whole, rows.batch(), 0, 1, boundaries);
  std::vector<Boundary> skips;
  for (Boundary& boundary : boundaries) {
    SplitBoundary parts = split_skips(boundary);
    ASSERT_EQ(parts.hidden.size(), 1U);
    ASSERT_EQ(parts.skips.size(), 1U);
    skips.push_back(std::move(parts.skips));
    boundary = std::move(parts.hidden);
    boundary[0].tensor = boundary[0].tensor.clone();
  }
  full->run_blocks(ctx, whole, rows.batch(), 1, kBlocks - 1, boundaries);
  for (std::size_t i = 0; i < 2; ++i) {
    boundaries[i] = join_skips(skips[i], boundaries[i]);
  }
  full->run_blocks(ctx, whole, rows.batch(), kBlocks - 1, kBlocks, boundaries);
  auto outputs = outputs_for(*full, rows.latents);
  full->finish(ctx, whole, rows.batch(), boundaries, outputs);
  expect_same(outputs, predict(ctx, *full, rows));
}

TEST_P(UVitBits, OfARowDoNotDependOnBatchOrThreads) {
  ExecContext one(1);
  ExecContext three(3);
  const auto network = make(one);
  const Rows rows = small_rows(one, *network, 6);
  const auto together = predict(three, *network, rows);
  for (std::size_t i = 0; i < 6; ++i) {
    Rows alone;
    alone.add(one, *network, rows.latents[i], rows.timesteps[i],
              static_cast<std::int64_t>(i));
    EXPECT_TRUE(bytes_equal(predict(one, *network, alone)[0], together[i]))
        << i;
  }
}

TEST_P(UVitBits, FollowClassTimestepAndLatents) {
  ExecContext ctx;
  const auto network = make(ctx);
  const Shape shape = network->info().latent_shape;
  Rows rows;
  rows.add(ctx, *network, latents_of_row(0, shape), 500.0, 1);
  rows.add(ctx, *network, latents_of_row(0, shape), 500.0, 7);
  rows.add(ctx, *network, latents_of_row(0, shape), 501.0, 1);
  rows.add(ctx, *network, latents_of_row(1, shape), 500.0, 1);
  const auto outputs = predict(ctx, *network, rows);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_FALSE(bytes_equal(outputs[i], outputs[0])) << i;
  }
}

TEST_P(UVitBits, AreTheSameForAnnouncedTimesteps) {
  ExecContext ctx;
  const auto network = make(ctx);
  Rows rows = small_rows(ctx, *network, 2);
  const auto want = predict(ctx, *network, rows);
  rows.prepared[1] = network->prepare(ctx, 1, rows.timesteps);
  rows.conditions[1] = rows.prepared[1].get();
  EXPECT_EQ(rows.prepared[1]->num_bytes() - rows.prepared[0]->num_bytes(),
            2 * network->info().bytes_per_timestep);
  expect_same(predict(ctx, *network, rows), want);
}

TEST_P(UVitBits, TakeTheMemoryThatWasForecast) {
  ExecContext ctx;
  const auto network = make(ctx);
  for (const int count : {1, 4}) {
    Rows rows = small_rows(ctx, *network, count);
    for (std::size_t i = 0; i < rows.prepared.size(); ++i) {
      rows.prepared[i] =
          network->prepare(ctx, static_cast<std::int64_t>(i), rows.timesteps);
      rows.conditions[i] = rows.prepared[i].get();
    }
    ExecContext fresh;
    (void)predict(fresh, *network, rows);
    const auto forecast = static_cast<double>(
        description()
            ->memory(network->info().latent_shape, GetParam().compute)
            .pass_bytes);
    EXPECT_NEAR(static_cast<double>(fresh.workspace().peak_bytes()),
                count * forecast, 0.1 * count * forecast);
  }
}

TEST_P(UVitBits, ANaNIsFoundInItsBlock) {
  ExecContext ctx;
  ShardContext whole;
  const auto network = make(ctx);
  Rows rows = small_rows(ctx, *network, 1);
  EXPECT_EQ(first_non_finite(ctx, whole, *network, rows.batch()), "");
  rows.timesteps[0] = std::nan("");
  EXPECT_EQ(first_non_finite(ctx, whole, *network, rows.batch()), "embedding");
}

INSTANTIATE_TEST_SUITE_P(Compute, UVitBits, testing::ValuesIn(dit_cases()),
                         name_of_dit);

TEST(UVit, TakesTheNewestSkipFirst) {
  const DenoiserInfo info =
      described(small_json())->info({4, 10, 10}, DType::f32);
  ASSERT_EQ(info.skips.size(), 2U);
  EXPECT_EQ(info.skips[0].made_before, 1);
  EXPECT_EQ(info.skips[0].taken_by, 4);
  EXPECT_EQ(info.skips[1].made_before, 2);
  EXPECT_EQ(info.skips[1].taken_by, 3);
  EXPECT_EQ(info.num_classes, 7) << "'no class' is none of them";
}

TEST(UVit, HasAboutAsManyParametersAsPublished) {
  // The paper's table 1: U-ViT-L and U-ViT-H. The memory is that of the weights
  // and of the largest tensor.
  const std::tuple<int, int, double> published[] = {{1024, 20, 287e6},
                                                    {1152, 28, 501e6}};
  for (const auto& [width, depth, parameters] : published) {
    const Json json = Json::parse(
        R"({"img_size":32,"patch_size":2,"in_chans":4,"num_heads":16,
            "num_classes":1001,"conv":false,"embed_dim":)" +
            std::to_string(width) + R"(,"depth":)" + std::to_string(depth) +
            "}",
        "config.json");
    const auto memory =
        described(json)->memory({4, 32, 32}, DType::f32, DeviceKind::cuda);
    EXPECT_NEAR(static_cast<double>(memory.weights_bytes) / 4, parameters,
                0.02 * parameters)
        << width;
  }
}

TEST(UVit, RefusesLatentsAndClassesThatItWasNotTrainedWith) {
  ExecContext ctx;
  const auto description = described(small_json());
  EXPECT_EQ(description->nearest_latents({4, 20, 6}), (Shape{4, 10, 10}));
  const auto network = load_random(ctx, *description);
  Rows rows;
  rows.add(ctx, *network, latents_of_row(0, {4, 12, 12}), 500.0, 7);
  const Error error = error_of([&] { (void)predict(ctx, *network, rows); });
  EXPECT_EQ(error.code(), Errc::shape_mismatch);
  EXPECT_EQ(error_of([&] { (void)network->prepare(ctx, 8); }).code(),
            Errc::invalid_argument);
}

TEST(UVit, RefusesAnotherNetwork) {
  const std::pair<const char*, const char*> configs[] = {
      {R"({"num_classes":10,"mlp_time_embed":true})",
       "mlp_time_embed: got true, expected false"},
      {R"({"num_classes":10,"skip":false})", "skip: got false, expected true"},
      {R"({"num_classes":10,"qk_scale":0.5})",
       "qk_scale: got 0.5, expected null"},
      {R"({"num_classes":-1})",
       "num_classes: got -1, expected 2 or more, with 'no class'"},
      {"{}", "num_classes: got null, expected 2 or more, with 'no class'"},
      {R"({"num_classes":10,"num_heads":7})", "a multiple of num_heads"},
      {R"({"num_classes":10,"mlp_ratio":1000})", "mlp_ratio: got 1000"},
      {R"({"num_classes":10,"img_size":225})", "img_size: got 225"}};
  for (const auto& [text, message] : configs) {
    const Error error = error_of(
        [&json = text] { (void)described(Json::parse(json, "config.json")); });
    EXPECT_EQ(error.code(), Errc::unsupported) << text;
    EXPECT_TRUE(contains(error.what(), message)) << error.what();
  }
}

TEST(UVit, OfFewerBlocksHasAsManySkipsAsItCan) {
  const auto whole = described(small_json());
  for (const auto& [blocks, made] :
       {std::pair{1, 1}, {2, 1}, {3, 3}, {4, 3}, {5, 5}}) {
    EXPECT_EQ(
        whole->with_blocks(blocks)->info({4, 10, 10}, DType::f32).blocks.size(),
        made)
        << blocks;
  }
}

}  // namespace
}  // namespace troupe::models
