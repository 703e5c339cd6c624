// What PixArt promises: cuts, batches, threads and paddings change no bit.

#include "kernels/linear.h"
#include "models/pixart/pixart.h"
#include "tests/models/helpers.h"
#include "tests/models/pixart_fixtures.h"

namespace troupe::models {
namespace {

using PixArtBits = DitTest;

/// Each segment has an instance of its own, with its own prepared prompts.
std::vector<Tensor> predict_cut(ExecContext& ctx, const DitCase& way, int count,
                                const std::vector<int>& cuts) {
  ShardContext whole;
  std::vector<Boundary> boundaries(static_cast<std::size_t>(count));
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto part = small_pixart(ctx, way, {cuts[i], cuts[i + 1]});
    const Rows rows = prompted_rows(ctx, *part, count);
    if (i == 0) {
      part->embed(ctx, whole, rows.batch(), boundaries);
      EXPECT_EQ(bytes_of(boundaries[0]), part->info().boundary_bytes());
    }
    Batch batch = rows.batch();
    batch.latents = {};
    part->run_blocks(ctx, whole, batch, cuts[i], cuts[i + 1], boundaries);
    if (i + 2 == cuts.size()) {
      outputs = outputs_for(*part, rows.latents);
      part->finish(ctx, whole, batch, boundaries, outputs);
    }
  }
  return outputs;
}

TEST_P(PixArtBits, StayTheSameHoweverTheBlocksAreCut) {
  ExecContext ctx;
  const auto full = small_pixart(ctx, GetParam());
  const auto expected = predict(ctx, *full, prompted_rows(ctx, *full, 3));
  for (const std::vector<int>& cuts :
       {std::vector<int>{0, 4}, {0, 1, 4}, {0, 2, 3, 4}, {0, 1, 2, 3, 4}}) {
    expect_same(predict_cut(ctx, GetParam(), 3, cuts), expected);
  }
}

TEST_P(PixArtBits, OfARowDoNotDependOnBatchPositionOrThreads) {
  ExecContext one(1);
  ExecContext three(3);
  const auto pixart = small_pixart(one, GetParam());
  const Rows rows = prompted_rows(one, *pixart, 6);
  const auto together = predict(one, *pixart, rows);
  expect_same(predict(three, *pixart, prompted_rows(three, *pixart, 6)),
              together);
  Rows reversed;
  for (int i = 5; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    reversed.add(three, *pixart, rows.latents[at], rows.timesteps[at],
                 prompt_of_row(i));
  }
  const auto backward = predict(three, *pixart, reversed);
  for (std::size_t i = 0; i < 6; ++i) {
    Rows alone;
    alone.add(one, *pixart, rows.latents[i], rows.timesteps[i],
              prompt_of_row(static_cast<std::int64_t>(i)));
    EXPECT_TRUE(bytes_equal(predict(one, *pixart, alone)[0], together[i])) << i;
    EXPECT_TRUE(bytes_equal(backward[5 - i], together[i])) << i;
  }
}

TEST_P(PixArtBits, DoNotDependOnThePadding) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx, GetParam());
  const Tensor x = latents_of_row(0, {4, 10, 10});
  for (const std::int64_t tokens : {1, 2, 63, 64, 65}) {
    Rows rows;
    for (const std::int64_t padding : {0, 1, 50, 200}) {
      rows.add(ctx, *pixart, x, 500.0, prompt(3, tokens, padding));
    }
    // Padding with attention is a different prompt.
    Condition longer;
    longer.add("prompt_embeds",
               prompt(3, tokens, 1).find("prompt_embeds")->tensor);
    rows.add(ctx, *pixart, x, 500.0, longer);
    const auto outputs = predict(ctx, *pixart, rows);
    for (std::size_t i = 1; i < 4; ++i) {
      EXPECT_TRUE(bytes_equal(outputs[i], outputs[0])) << tokens << " " << i;
    }
    EXPECT_FALSE(bytes_equal(outputs[4], outputs[0])) << tokens;
  }
}

TEST_P(PixArtBits, AreTheSameForAnnouncedTimesteps) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx, GetParam());
  const Rows rows = prompted_rows(ctx, *pixart, 3);
  const auto want = predict(ctx, *pixart, rows);
  Rows announced = rows;
  for (std::size_t i = 0; i < 2; ++i) {  // the third row is computed
    const std::vector<double> timesteps = {1.0, rows.timesteps[i], 500.0, 1.0};
    announced.prepared[i] = pixart->prepare(
        ctx, prompt_of_row(static_cast<std::int64_t>(i)), timesteps);
    announced.conditions[i] = announced.prepared[i].get();
    EXPECT_EQ(
        announced.prepared[i]->num_bytes(),
        rows.prepared[i]->num_bytes() + 3 * pixart->info().bytes_per_timestep);
  }
  expect_same(predict(ctx, *pixart, announced), want);
}

TEST_P(PixArtBits, FollowLatentsTimestepAndPrompt) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx, GetParam());
  const Shape shape{4, 10, 10};
  Rows rows;
  rows.add(ctx, *pixart, latents_of_row(0, shape), 500.0, prompt(1, 8));
  rows.add(ctx, *pixart, latents_of_row(1, shape), 500.0, prompt(1, 8));
  rows.add(ctx, *pixart, latents_of_row(0, shape), 501.0, prompt(1, 8));
  rows.add(ctx, *pixart, latents_of_row(0, shape), 500.0, prompt(2, 8));
  const auto outputs = predict(ctx, *pixart, rows);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_FALSE(bytes_equal(outputs[i], outputs[0])) << i;
  }
}

// One instance serves any rectangle: smaller and larger than it was trained
// with, in turn. 4×16 and 16×4 have as many tokens.
TEST_P(PixArtBits, OfAnySizeAreThoseOfPiecesAndOfOneRow) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx, GetParam());
  for (const Shape& shape : {Shape{4, 4, 16}, Shape{4, 16, 4}, Shape{4, 8, 8},
                             Shape{4, 2, 2}, Shape{4, 14, 6}}) {
    const Rows rows = prompted_rows(ctx, *pixart, 3, shape);
    const auto whole = predict(ctx, *pixart, rows);
    std::vector<Boundary> boundaries(3);
    ShardContext shard;
    pixart->embed(ctx, shard, rows.batch(), boundaries);
    pixart->run_blocks(ctx, shard, rows.batch(), 0, 1, boundaries);
    pixart->run_blocks(ctx, shard, rows.batch(), 1, 4, boundaries);
    auto cut = outputs_for(*pixart, rows.latents);
    pixart->finish(ctx, shard, rows.batch(), boundaries, cut);
    expect_same(cut, whole);
    Rows last;
    last.add(ctx, *pixart, rows.latents[2], rows.timesteps[2],
             prompt_of_row(2));
    EXPECT_TRUE(bytes_equal(predict(ctx, *pixart, last)[0], whole[2]))
        << to_string(shape);
  }
}

TEST_P(PixArtBits, AreThoseOfItsDtype) {
  // Otherwise the cases of one width would all be one.
  ExecContext ctx;
  DitCase other = GetParam();
  other.compute = other.compute == DType::f32 ? DType::bf16 : DType::f32;
  if (!kernels::supports(other.compute)) {
    GTEST_SKIP() << "one dtype only on this processor";
  }
  const auto here = small_pixart(ctx, GetParam());
  const auto there = small_pixart(ctx, other);
  EXPECT_FALSE(
      bytes_equal(predict(ctx, *here, prompted_rows(ctx, *here, 1))[0],
                  predict(ctx, *there, prompted_rows(ctx, *there, 1))[0]));
}

INSTANTIATE_TEST_SUITE_P(Compute, PixArtBits, testing::ValuesIn(dit_cases()),
                         name_of_dit);

TEST(PixArt, AStepAllocatesNothingAfterTheFirst) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx);
  const Rows rows = prompted_rows(ctx, *pixart, 2);
  (void)predict(ctx, *pixart, rows);
  const auto held = ctx.workspace().capacity_bytes();
  (void)predict(ctx, *pixart, rows);
  EXPECT_EQ(ctx.workspace().capacity_bytes(), held);
}

TEST(PixArt, APassTakesTheMemoryThatWasForecast) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    for (const int count : {1, 4}) {
      if (!kernels::supports(compute)) {
        continue;
      }
      ExecContext ctx;
      PixArtConfig config = small_pixart_config(64);
      config.sample_size = 32;
      const auto pixart = load_random(ctx, *describe(config), compute);
      const Rows rows = prompted_rows(ctx, *pixart, count, {4, 32, 32});
      ExecContext fresh;  // what `prepare` took is not of the pass
      (void)predict(fresh, *pixart, rows);
      const NetworkMemory forecast =
          describe(config)->memory({4, 32, 32}, compute);
      const double share =
          static_cast<double>(fresh.workspace().capacity_bytes()) /
          static_cast<double>(forecast.of_rows(count));
      EXPECT_LE(share, 1.0) << count << " " << to_string(compute);
      EXPECT_GE(share, 0.8) << count << " " << to_string(compute);
    }
  }
}

TEST(PixArt, SegmentsHoldOnlyTheirOwnWeightsAndPrompts) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = small_pixart(ctx);
  const auto middle = small_pixart(ctx, {}, {1, 2});
  const auto last = small_pixart(ctx, {}, {3, 4});
  EXPECT_LT(middle->info().parameter_bytes, full->info().parameter_bytes / 2);
  EXPECT_EQ(middle->info().blocks.size(), 4U);
  const Condition condition = prompt(1, 9, 30);
  const std::size_t per_block = 9 * 2 * 36 * sizeof(float);
  EXPECT_EQ(full->prepare(ctx, condition)->num_bytes(), 4 * per_block);
  EXPECT_EQ(middle->prepare(ctx, condition)->num_bytes(), per_block);

  const Rows rows = prompted_rows(ctx, *full, 1);
  const Rows of_middle = prompted_rows(ctx, *middle, 1);
  const Rows of_last = prompted_rows(ctx, *last, 1);
  std::vector<Boundary> boundaries(1);
  auto outputs = outputs_for(*full, rows.latents);
  const auto code_of = [&](auto&& call) { return error_of(call).code(); };
  EXPECT_EQ(code_of([&] {
              middle->embed(ctx, whole, of_middle.batch(), boundaries);
            }),
            Errc::invalid_argument);
  full->embed(ctx, whole, rows.batch(), boundaries);
  EXPECT_EQ(code_of([&] {
              middle->run_blocks(ctx, whole, of_middle.batch(), 1, 3,
                                 boundaries);
            }),
            Errc::invalid_argument);
  EXPECT_EQ(code_of([&] {
              middle->finish(ctx, whole, of_middle.batch(), boundaries,
                             outputs);
            }),
            Errc::invalid_argument);
  EXPECT_NO_THROW(
      last->finish(ctx, whole, of_last.batch(), boundaries, outputs));
  // A prompt that another segment prepared has other blocks' keys.
  EXPECT_EQ(code_of([&] {
              middle->run_blocks(ctx, whole, rows.batch(), 1, 2, boundaries);
            }),
            Errc::invalid_argument);
}

TEST(PixArt, RefusesSegmentsThatDoNotExist) {
  ExecContext ctx;
  for (const SegmentRange segment :
       {SegmentRange{0, 5}, {3, 3}, {3, 2}, {-1, 2}}) {
    EXPECT_EQ(error_of([&] { (void)small_pixart(ctx, {}, segment); }).code(),
              Errc::invalid_argument);
  }
}

TEST(PixArt, RefusesPartsOfPatchesAndMixedSizes) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx);
  for (const Shape& wrong : {Shape{4, 7, 8}, Shape{4, 8, 7}, Shape{3, 6, 6},
                             Shape{4, 6}, Shape{4, 0, 8}, Shape{4, 1, 6, 6}}) {
    Rows rows;
    rows.add(ctx, *pixart, Tensor::zeros(wrong, DType::f32), 500.0,
             prompt(1, 2));
    EXPECT_EQ(error_of([&] { (void)predict(ctx, *pixart, rows); }).code(),
              Errc::shape_mismatch)
        << to_string(wrong);
  }
  Rows mixed = prompted_rows(ctx, *pixart, 2);
  mixed.latents[1] = Tensor::zeros({4, 8, 10}, DType::f32);
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *pixart, mixed); }).code(),
            Errc::shape_mismatch);
}

TEST(PixArt, FindsTheNearestRectangle) {
  const auto description = describe(small_pixart_config());
  const auto nearest = [&](const Shape& wanted) {
    return description->nearest_latents(wanted);
  };
  EXPECT_EQ(nearest({4, 7, 12}), (Shape{4, 8, 12}));
  EXPECT_EQ(nearest({4, 1, 100}), (Shape{4, 2, 100}));
  // At most 2^16 patches of 2×2.
  EXPECT_EQ(nearest({4, 512, 512}), (Shape{4, 512, 512}));
  EXPECT_EQ(nearest({4, 5000, 5000}), (Shape{4, 512, 512}));
  EXPECT_EQ(nearest({4, 10, 1 << 20}), (Shape{4, 10, 2 * (65536 / 5)}));
  EXPECT_EQ(nearest({4, 1 << 20, 10}), (Shape{4, 2 * (65536 / 5), 10}));
}

TEST(PixArt, StopsBetweenBlocksWhenAsked) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx);
  const Rows rows = prompted_rows(ctx, *pixart, 1);
  const auto before = ctx.ticks();
  (void)predict(ctx, *pixart, rows);
  EXPECT_EQ(ctx.ticks() - before, 4U);
  ctx.request_stop();
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *pixart, rows); }).code(),
            Errc::interrupted);
}

TEST(PixArt, TheHashFollowsWeightsAndConfiguration) {
  ExecContext ctx;
  const auto hash_of = [&](const PixArtConfig& config, std::uint64_t seed) {
    RandomWeights weights(ctx, seed);
    return describe(config)->weights_hash(ctx, weights);
  };
  const PixArtConfig plain = small_pixart_config();
  const std::uint64_t before = hash_of(plain, 11);
  EXPECT_EQ(before, small_pixart(ctx)->info().weights_hash);
  EXPECT_NE(hash_of(plain, 12), before);
  PixArtConfig config = plain;
  config.interpolation_scale = 1.0;
  EXPECT_NE(hash_of(config, 11), before);
  config = plain;
  config.norm_eps *= 2;
  EXPECT_NE(hash_of(config, 11), before);
  config = plain;
  std::swap(config.num_attention_heads, config.attention_head_dim);
  EXPECT_NE(hash_of(config, 11), before);
}

TEST(PixArt, ParametersOfSigmaAreThePublishedNumber) {
  std::int64_t stored = 0;
  const auto specs = describe(PixArtConfig{})->specs({0, 28});
  for (const TensorSpec& spec : specs) {
    stored += spec.shape.num_elements();
  }
  EXPECT_EQ(stored, 610'856'096);
  EXPECT_EQ(specs.size(), 603U);
}

}  // namespace
}  // namespace troupe::models
