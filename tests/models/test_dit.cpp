#include <algorithm>
#include <numeric>

#include "kernels/core/noise.h"
#include "kernels/reduction.h"
#include "models/dit/dit.h"
#include "models/files/checkpoint.h"
#include "tests/models/dit_fixtures.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

using DitBits = DitTest;

TEST_P(DitBits, StayTheSameHoweverTheBlocksAreCut) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *full, 3);
  const auto expected = predict(ctx, *full, rows);
  for (const std::vector<int>& cuts :
       {std::vector<int>{0, 5}, {0, 1, 5}, {0, 2, 4, 5}, {0, 1, 2, 3, 4, 5}}) {
    std::vector<Boundary> boundaries(3);
    auto outputs = outputs_for(*full, rows.latents);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const auto part = small_dit(ctx, GetParam(), {cuts[i], cuts[i + 1]});
      if (i == 0) {
        part->embed(ctx, whole, rows.batch(), boundaries);
        EXPECT_EQ(bytes_of(boundaries[0]), full->info().boundary_bytes());
      }
      part->run_blocks(ctx, whole, rows.batch(), cuts[i], cuts[i + 1],
                       boundaries);
      if (i + 2 == cuts.size()) {
        part->finish(ctx, whole, rows.batch(), boundaries, outputs);
      }
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(bytes_equal(outputs[i], expected[i])) << cuts.size();
    }
  }
}

TEST_P(DitBits, OfARowDoNotDependOnBatchPositionOrThreads) {
  ExecContext one(1);
  ExecContext three(3);
  const auto dit = small_dit(one, GetParam());
  const Rows rows = small_rows(one, *dit, 7);
  const auto together = predict(one, *dit, rows);
  const auto threaded = predict(three, *dit, rows);
  Rows reversed;
  for (int i = 6; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    reversed.add(one, *dit, rows.latents[at], rows.timesteps[at], at % 8);
  }
  const auto backward = predict(three, *dit, reversed);
  for (std::size_t i = 0; i < 7; ++i) {
    Rows alone;
    alone.add(one, *dit, rows.latents[i], rows.timesteps[i],
              static_cast<std::int64_t>(i % 8));
    EXPECT_TRUE(bytes_equal(predict(one, *dit, alone)[0], together[i])) << i;
    EXPECT_TRUE(bytes_equal(threaded[i], together[i])) << i;
    EXPECT_TRUE(bytes_equal(backward[6 - i], together[i])) << i;
  }
}

TEST_P(DitBits, AreTheSameForManyRowsThatAreComputedInTurns) {
  ExecContext ctx;
  DitConfig config = small_config(GetParam().head_dim);
  config.sample_size = 80;  // 1600 tokens: two rows at once
  config.num_layers = 1;
  ASSERT_EQ(rows_at_once(config.grid().num_tokens(config.latent_shape()),
                         DeviceKind::cpu),
            2);
  const auto dit = load_random(ctx, *describe(config), GetParam().compute);
  const Rows rows = small_rows(ctx, *dit, 3);
  const auto together = predict(ctx, *dit, rows);
  Rows last;
  last.add(ctx, *dit, rows.latents[2], rows.timesteps[2], 2);
  EXPECT_TRUE(bytes_equal(predict(ctx, *dit, last)[0], together[2]));
}

TEST_P(DitBits, AreThoseOfItsDtype) {
  // Otherwise the cases of one width would all be one.
  ExecContext ctx;
  DitCase other = GetParam();
  other.compute = other.compute == DType::f32 ? DType::bf16 : DType::f32;
  if (!kernels::supports(other.compute)) {
    GTEST_SKIP() << "one dtype only on this processor";
  }
  const auto dit = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *dit, 1);
  EXPECT_FALSE(bytes_equal(predict(ctx, *dit, rows)[0],
                           predict(ctx, *small_dit(ctx, other), rows)[0]));
}

Rows rows_of_side(ExecContext& ctx, const Denoiser& dit, std::int64_t side) {
  Rows rows;
  for (int i = 0; i < 3; ++i) {
    Tensor x({4, side, side}, DType::f32);
    fill_normal({.seed = static_cast<std::uint64_t>(i)}, x);
    rows.add(ctx, dit, x, 900.0 - 300.0 * i, i);
  }
  return rows;
}

// One instance serves any square: smaller and larger than it was trained with,
// in turn.
TEST_P(DitBits, OfAnySizeAreThoseOfItsSegmentsAndOfOneRow) {
  ExecContext ctx;
  const auto dit = small_dit(ctx, GetParam());
  for (const std::int64_t side : {6, 16, 10, 2, 6}) {
    const Rows rows = rows_of_side(ctx, *dit, side);
    const auto whole = predict(ctx, *dit, rows);
    std::vector<Boundary> boundaries(3);
    ShardContext shard;
    dit->embed(ctx, shard, rows.batch(), boundaries);
    dit->run_blocks(ctx, shard, rows.batch(), 0, 2, boundaries);
    dit->run_blocks(ctx, shard, rows.batch(), 2, 5, boundaries);
    auto cut = outputs_for(*dit, rows.latents);
    dit->finish(ctx, shard, rows.batch(), boundaries, cut);
    Rows last;
    last.add(ctx, *dit, rows.latents[2], rows.timesteps[2], 2);
    EXPECT_TRUE(bytes_equal(predict(ctx, *dit, last)[0], whole[2])) << side;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(bytes_equal(cut[i], whole[i])) << side << " row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Compute, DitBits, testing::ValuesIn(dit_cases()),
                         name_of_dit);

TEST(Dit, AStepAllocatesNothingAfterTheFirst) {
  ExecContext ctx;
  const auto dit = small_dit(ctx);
  const Rows rows = small_rows(ctx, *dit, 2);
  (void)predict(ctx, *dit, rows);
  const auto held = ctx.workspace().capacity_bytes();
  (void)predict(ctx, *dit, rows);
  EXPECT_EQ(ctx.workspace().capacity_bytes(), held);
}

TEST(Dit, APassTakesTheMemoryThatWasForecast) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    for (const int rows : {1, 4}) {
      if (!kernels::supports(compute)) {
        continue;
      }
      for (const bool gated : {false, true}) {
        ExecContext ctx;
        const double share = workspace_over_forecast(
            ctx, kernels::Activation::gelu_tanh, compute, rows, gated);
        EXPECT_LE(share, 1.0) << rows << " " << to_string(compute) << gated;
        EXPECT_GE(share, 0.8) << rows << " " << to_string(compute) << gated;
      }
    }
  }
}

TEST(Dit, SegmentsHoldOnlyTheirOwnWeights) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = small_dit(ctx);
  const auto middle = small_dit(ctx, {2, 3});
  const auto last = small_dit(ctx, {4, 5});
  EXPECT_LT(middle->info().parameter_bytes, full->info().parameter_bytes / 3);
  EXPECT_EQ(middle->info().blocks.size(), 5U);
  const Rows rows = small_rows(ctx, *full, 1);
  std::vector<Boundary> boundaries(1);
  auto outputs = outputs_for(*full, rows.latents);
  EXPECT_EQ(error_of([&] {
              middle->embed(ctx, whole, rows.batch(), boundaries);
            }).code(),
            Errc::invalid_argument);
  full->embed(ctx, whole, rows.batch(), boundaries);
  EXPECT_EQ(error_of([&] {
              middle->run_blocks(ctx, whole, rows.batch(), 2, 4, boundaries);
            }).code(),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([&] {
              middle->finish(ctx, whole, rows.batch(), boundaries, outputs);
            }).code(),
            Errc::invalid_argument);
  EXPECT_NO_THROW(last->finish(ctx, whole, rows.batch(), boundaries, outputs));
}

TEST(Dit, RefusesSegmentsThatDoNotExist) {
  ExecContext ctx;
  for (const SegmentRange segment :
       {SegmentRange{0, 6}, {3, 3}, {4, 2}, {-1, 2}}) {
    EXPECT_EQ(error_of([&] { (void)small_dit(ctx, segment); }).code(),
              Errc::invalid_argument);
  }
}

TEST(Dit, RefusesUnknownClassesAndWrongShapes) {
  ExecContext ctx;
  const auto dit = small_dit(ctx);
  EXPECT_NO_THROW((void)dit->prepare(ctx, {7}));
  for (const std::int64_t label : {-1, 8}) {
    EXPECT_EQ(error_of([&] { (void)dit->prepare(ctx, {label}); }).code(),
              Errc::invalid_argument);
  }
  Rows rows;
  rows.add(ctx, *dit, Tensor::zeros({4, 10, 9}, DType::f32), 0, 0);
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *dit, rows); }).code(),
            Errc::shape_mismatch);
}

TEST(Dit, RefusesRectanglesPartsOfPatchesAndMixedSizes) {
  ExecContext ctx;
  const auto dit = small_dit(ctx);
  for (const Shape& wrong : {Shape{4, 6, 8}, Shape{4, 7, 7}, Shape{3, 6, 6},
                             Shape{4, 6}, Shape{4, 0, 0}, Shape{4, 1, 6, 6}}) {
    Rows rows;
    rows.add(ctx, *dit, Tensor::zeros(wrong, DType::f32), 500.0, 1);
    EXPECT_EQ(error_of([&] { (void)predict(ctx, *dit, rows); }).code(),
              Errc::shape_mismatch)
        << to_string(wrong);
  }
  Rows mixed = rows_of_side(ctx, *dit, 6);
  mixed.latents[1] = Tensor::zeros({4, 8, 8}, DType::f32);
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *dit, mixed); }).code(),
            Errc::shape_mismatch);
  const auto description = describe(small_config());
  EXPECT_EQ(description->nearest_latents({4, 7, 12}), (Shape{4, 12, 12}));
  EXPECT_EQ(description->nearest_latents({4, 1, 1}), (Shape{4, 2, 2}));
  EXPECT_EQ(description->nearest_latents({4, 16, 16}), (Shape{4, 16, 16}));
}

TEST(Dit, StopsBetweenBlocksWhenAsked) {
  ExecContext ctx;
  const auto dit = small_dit(ctx);
  const Rows rows = small_rows(ctx, *dit, 1);
  const auto before = ctx.ticks();
  (void)predict(ctx, *dit, rows);
  EXPECT_EQ(ctx.ticks() - before, 5U);
  ctx.request_stop();
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *dit, rows); }).code(),
            Errc::interrupted);
}

TEST(Dit, EqualEmbeddersAreHeldOnce) {
  ExecContext ctx;
  const auto open = [](const char* name) {
    return open_checkpoint(std::filesystem::path(TROUPE_GOLDEN_DIR) / name);
  };
  // Over what blocks with one embedder take.
  const auto bytes_over = [&](const char* name) {
    const Checkpoint checkpoint = open(name);
    const auto description =
        describe(parse_dit_config(checkpoint.denoiser.config));
    FileWeights weights(ctx, checkpoint.denoiser.weights);
    return description->load(ctx, DType::f32, weights)->info().parameter_bytes -
           load_random(ctx, *description)->info().parameter_bytes;
  };
  EXPECT_EQ(bytes_over("dit_unusual"), 0U);
  EXPECT_GT(bytes_over("dit_default"), 0U);
}

TEST(Dit, TheHashFollowsTheWeights) {
  ExecContext ctx;
  const auto hash_of = [&](std::uint64_t seed) {
    return load_random(ctx, *describe(small_config()), DType::f32, {},
                       WeightPlacement::resident, seed)
        ->info()
        .weights_hash;
  };
  EXPECT_EQ(hash_of(11), hash_of(11));
  EXPECT_NE(hash_of(11), hash_of(12));
}

TEST(Dit, TheHashFollowsTheConfiguration) {
  ExecContext ctx;
  const auto hash_of = [&](const DitConfig& config) {
    return load_random(ctx, *describe(config))->info().weights_hash;
  };
  const std::uint64_t before = hash_of(small_config());
  DitConfig config = small_config();
  config.norm_eps *= 2;
  EXPECT_NE(hash_of(config), before);
  config = small_config();
  std::swap(config.num_attention_heads, config.attention_head_dim);
  ASSERT_NE(config.num_attention_heads, small_config().num_attention_heads);
  EXPECT_NE(hash_of(config), before);
  config = small_config();
  config.feed_forward.activation = kernels::Activation::silu;
  EXPECT_NE(hash_of(config), before);
  config = small_config();
  config.norm_elementwise_affine = true;
  EXPECT_NE(hash_of(config), before);
  const std::uint64_t affine = hash_of(config);
  config.feed_forward.gated = true;
  EXPECT_NE(hash_of(config), affine);
}

TEST(Dit, TheHashOfPublishedKindsNeverChanges) {
  // Execution classes and resumed runs compare it: a field that is added to
  // the configuration must leave it.
  ExecContext ctx;
  EXPECT_EQ(small_dit(ctx)->info().weights_hash, 0x6e2740e908b8477bULL);
}

TEST(Dit, TheHashIsFoundWithoutPacking) {
  ExecContext ctx;
  RandomWeights weights(ctx, 11);
  EXPECT_EQ(describe(small_config())->weights_hash(ctx, weights),
            small_dit(ctx)->info().weights_hash);
}

TEST(Dit, RandomWeightsDoNotDependOnThreads) {
  ExecContext one(1);
  ExecContext three(3);
  RandomWeights a(one, 5);
  RandomWeights b(three, 5);
  const TensorSpec spec{"x.weight", {300, 301}};
  const Tensor x = a.read(spec);
  EXPECT_TRUE(bytes_equal(x, b.read(spec)));
  kernels::Readings readings(one, 1);
  readings.sum_squares(x);
  EXPECT_NEAR(readings.wait()[0] / 300.0, 1.0, 0.02);
}

TEST(Dit, ParametersOfAnXl2AreThePublishedNumber) {
  DitConfig config;
  config.out_channels = 8;
  const auto specs = describe(config)->specs({0, 28});
  std::int64_t stored = 0;
  for (const TensorSpec& spec : specs) {
    stored += spec.shape.num_elements();
  }
  EXPECT_EQ(stored, 749'826'464);
  EXPECT_EQ(specs.size(), 538U);
}

}  // namespace
}  // namespace troupe::models
