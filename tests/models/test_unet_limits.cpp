// Memory of a UNet, weights of its segments, and inputs that are refused.

#include <set>

#include "models/unet/unet.h"
#include "tests/models/helpers.h"
#include "tests/models/unet_fixtures.h"

namespace troupe::models {
namespace {

TEST(UNet, AStepAllocatesNothingAfterTheFirst) {
  ExecContext ctx;
  const UNetConfig config = small_unet_config();
  const auto unet = small_unet(ctx, config);
  const Rows rows = unet_rows(ctx, *unet, config, 2);
  (void)predict(ctx, *unet, rows);
  const auto held = ctx.workspace().capacity_bytes();
  (void)predict(ctx, *unet, rows);
  EXPECT_EQ(ctx.workspace().capacity_bytes(), held);
}

TEST(UNet, APassTakesTheMemoryThatWasForecast) {
  for (const Shape& shape : {Shape{4, 64, 32}, Shape{4, 61, 33}}) {
    for (const bool with_sizes : {false, true}) {
      for (const int count : {1, 4}) {
        ExecContext ctx;
        const UNetConfig config = small_unet_config(with_sizes, 32);
        const auto unet = small_unet(ctx, config);
        const Rows rows = unet_rows(ctx, *unet, config, count, shape);
        ExecContext fresh;  // what `prepare` took is not of the pass
        (void)predict(fresh, *unet, rows);
        const NetworkMemory forecast =
            describe(config)->memory(shape, DType::f32);
        const double share =
            static_cast<double>(fresh.workspace().capacity_bytes()) /
            static_cast<double>(forecast.of_rows(count));
        EXPECT_LE(share, 1.0) << count;
        EXPECT_GE(share, 0.9) << count;
      }
    }
  }
}

TEST(UNet, ThreadsTakeTheScratchThatWasForecast) {
  const UNetConfig config = small_unet_config(true, 32);
  const Shape shape{4, 64, 32};
  const ThreadScratch forecast =
      describe(config)->memory(shape, DType::f32).scratch;
  for (const int threads : {1, 3}) {
    ExecContext ctx;
    const auto unet = small_unet(ctx, config);
    const Rows rows = unet_rows(ctx, *unet, config, 1, shape);
    ExecContext fresh(threads);
    (void)predict(fresh, *unet, rows);
    // The library asks for a little more.
    EXPECT_LE(fresh.scratch_bytes(), forecast.of(threads) * 21 / 20) << threads;
    EXPECT_GE(fresh.scratch_bytes(), forecast.of(1) / 2) << threads;
  }
  EXPECT_EQ(describe(config)
                ->memory(shape, DType::f32, DeviceKind::cuda)
                .scratch.of(8),
            0U);
}

TEST(UNet, SegmentsHoldOnlyTheirOwnWeightsAndPrompts) {
  ExecContext ctx;
  ShardContext whole;
  const UNetConfig config = small_unet_config();
  const int count = UNetLayout(config).size();
  const auto full = small_unet(ctx, config);
  const auto middle = small_unet(ctx, config, DType::f32, {2, 4});
  EXPECT_LT(middle->info().parameter_bytes, full->info().parameter_bytes / 2);
  EXPECT_EQ(middle->info().blocks.size(), static_cast<std::size_t>(count));
  const Condition condition = unet_condition(config, 1, 9, 30);
  // Keys and values of the transformer blocks: unit 2 has two, of 9 · 2 · 24
  // numbers each, which begin at multiples of 128.
  EXPECT_EQ(middle->prepare(ctx, condition)->num_bytes(),
            2 * 512 * sizeof(float));

  const Rows rows = unet_rows(ctx, *full, config, 1);
  const Rows of_middle = unet_rows(ctx, *middle, config, 1);
  std::vector<Boundary> boundaries(1);
  auto outputs = outputs_for(*full, rows.latents);
  const auto code_of = [&](auto&& call) { return error_of(call).code(); };
  EXPECT_EQ(code_of([&] {
              middle->embed(ctx, whole, of_middle.batch(), boundaries);
            }),
            Errc::invalid_argument);
  full->embed(ctx, whole, rows.batch(), boundaries);
  full->run_blocks(ctx, whole, rows.batch(), 0, 2, boundaries);
  EXPECT_EQ(code_of([&] {
              middle->run_blocks(ctx, whole, of_middle.batch(), 2, 5,
                                 boundaries);
            }),
            Errc::invalid_argument);
  EXPECT_EQ(code_of([&] {
              middle->finish(ctx, whole, of_middle.batch(), boundaries,
                             outputs);
            }),
            Errc::invalid_argument);
  // A prompt that another segment prepared has other blocks' keys.
  EXPECT_EQ(code_of([&] {
              middle->run_blocks(ctx, whole, rows.batch(), 2, 3, boundaries);
            }),
            Errc::invalid_argument);
  // A boundary without a skip that its blocks take.
  const auto up = small_unet(ctx, config, DType::f32, {count - 2, count});
  const Rows of_up = unet_rows(ctx, *up, config, 1);
  std::vector<Boundary> bare = boundaries;
  full->run_blocks(ctx, whole, rows.batch(), 2, count - 2, bare);
  ASSERT_EQ(bare[0].size(), 3U);
  bare[0].erase(bare[0].begin());
  const Error lacks = error_of([&] {
    up->run_blocks(ctx, whole, of_up.batch(), count - 2, count, bare);
  });
  EXPECT_EQ(lacks.code(), Errc::shape_mismatch);
  EXPECT_TRUE(contains(lacks.what(), "skip.0")) << lacks.what();
  // A boundary of another cut.
  EXPECT_EQ(code_of([&] {
              middle->run_blocks(ctx, whole, of_middle.batch(), 3, 4,
                                 boundaries);
            }),
            Errc::shape_mismatch);
}

TEST(UNet, TakesSidesOfAnyLengthButNone) {
  ExecContext ctx;
  const UNetConfig config = small_unet_config();
  const auto unet = small_unet(ctx, config);
  for (const Shape& wrong : {Shape{3, 8, 8}, Shape{4, 8}, Shape{4, 0, 8},
                             Shape{4, 8, 0}, Shape{4, 1, 8, 8}}) {
    Rows rows;
    rows.add(ctx, *unet, Tensor::zeros(wrong, DType::f32), 500.0,
             unet_condition(config, 1, 2));
    EXPECT_EQ(error_of([&] { (void)predict(ctx, *unet, rows); }).code(),
              Errc::shape_mismatch)
        << to_string(wrong);
  }
  const auto description = describe(config);
  EXPECT_EQ(description->nearest_latents({4, 6, 9}), (Shape{4, 6, 9}));
  EXPECT_EQ(description->nearest_latents({4, 1, 101}), (Shape{4, 1, 101}));
  EXPECT_EQ(description->nearest_latents({3, 0, 9}), (Shape{4, 1, 9}));
  EXPECT_EQ(description->nearest_latents({4, 9}), description->latent_shape());
}

// Halved, sides of 5 and 6 are 3: boundaries alone do not tell them apart.
TEST(UNet, BlocksAreToldTheSidesOfTheLatents) {
  ExecContext ctx;
  ShardContext whole;
  const UNetConfig config = small_unet_config();
  const auto unet = small_unet(ctx, config);
  const int count = UNetLayout(config).size();
  const Rows rows = unet_rows(ctx, *unet, config, 1, {4, 5, 6});
  std::vector<Boundary> boundaries(1);
  unet->embed(ctx, whole, rows.batch(), boundaries);
  const auto code_of = [&](const Shape& told) {
    std::vector<Boundary> copy = boundaries;
    Batch batch = rows.batch();
    batch.latent_shape = told;
    return error_of(
               [&] { unet->run_blocks(ctx, whole, batch, 0, count, copy); })
        .code();
  };
  EXPECT_EQ(code_of({}), Errc::shape_mismatch);
  EXPECT_EQ(code_of({4, 5, 5}), Errc::shape_mismatch);
  EXPECT_EQ(code_of({4, 6, 6}), Errc::shape_mismatch);
  unet->run_blocks(ctx, whole, rows.batch(), 0, count, boundaries);
  auto turned = outputs_for(*unet, {Tensor({4, 6, 5}, DType::f32)});
  EXPECT_EQ(error_of([&] {
              unet->finish(ctx, whole, rows.batch(), boundaries, turned);
            }).code(),
            Errc::shape_mismatch);
}

TEST(UNet, StopsBetweenBlocksWhenAsked) {
  ExecContext ctx;
  const UNetConfig config = small_unet_config();
  const auto unet = small_unet(ctx, config);
  const Rows rows = unet_rows(ctx, *unet, config, 1);
  const auto before = ctx.ticks();
  (void)predict(ctx, *unet, rows);
  EXPECT_EQ(ctx.ticks() - before, unet->info().blocks.size());
  ctx.request_stop();
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *unet, rows); }).code(),
            Errc::interrupted);
}

TEST(UNet, RefusesConditionsThatDoNotFit) {
  ExecContext ctx;
  const UNetConfig config = small_unet_config(true);
  const auto unet = small_unet(ctx, config);
  const auto place_of = [&](const Condition& condition) {
    const Error error = error_of([&] { (void)unet->prepare(ctx, condition); });
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    return error.place();
  };
  EXPECT_EQ(place_of(prompt(1, 4)), "pooled");
  EXPECT_EQ(place_of(prompt(1, 4, 0, 21)), "prompt_embeds");
  EXPECT_EQ(place_of(Condition(3)), "class_label");
  const auto with_sizes = [&](std::int64_t pooled, std::int64_t sizes) {
    Condition condition = prompt(1, 4);
    condition.add("pooled", Tensor::zeros({pooled}, DType::f32));
    condition.add("size_ids", Tensor::zeros({sizes}, DType::f32));
    return condition;
  };
  EXPECT_EQ(place_of(with_sizes(config.pooled_width, 4)), "size_ids");
  EXPECT_EQ(place_of(with_sizes(config.pooled_width, 5)), "pooled");
  // A score in place of two sides: the pooled vector has the room of one.
  (void)unet->prepare(
      ctx, with_sizes(config.pooled_width + config.size_embed_dim, 5));
}

TEST(UNet, TheHashFollowsWeightsAndConfiguration) {
  ExecContext ctx;
  const UNetConfig plain = small_unet_config();
  const auto hash_of = [&](const UNetConfig& config, std::uint64_t seed) {
    RandomWeights weights(ctx, seed);
    return describe(config)->weights_hash(ctx, weights);
  };
  std::set<std::uint64_t> hashes = {hash_of(plain, 11), hash_of(plain, 12)};
  EXPECT_TRUE(hashes.contains(small_unet(ctx, plain)->info().weights_hash));
  UNetConfig config = plain;
  config.norm_eps *= 2;
  hashes.insert(hash_of(config, 11));
  config = plain;
  config.levels[0].heads = 1;
  hashes.insert(hash_of(config, 11));
  config = plain;
  config.activation = kernels::Activation::mish;
  hashes.insert(hash_of(config, 11));
  EXPECT_EQ(hashes.size(), 5U);
}

}  // namespace
}  // namespace troupe::models
