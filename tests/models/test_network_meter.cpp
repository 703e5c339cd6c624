// What a metered run says of a network, held against the formulas of the
// architectures and against real runs.

#include "models/unet/unet_layout.h"
#include "tests/models/helpers.h"
#include "tests/models/unet_fixtures.h"

namespace troupe::models {
namespace {

double product(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(in) *
         static_cast<double>(out);
}

TEST(NetworkMeter, CountsTheOperationsOfADit) {
  for (const bool gated : {false, true}) {
    DitConfig config = small_config();
    config.feed_forward.gated = gated;
    for (const std::int64_t side : {2, 10, 16}) {
      const DenoiserInfo info =
          describe(config)->info({4, side, side}, DType::f32);
      const std::int64_t tokens = side * side / 4;
      const std::int64_t width = config.width();
      for (const BlockInfo& block : info.blocks) {
        EXPECT_EQ(block.flops,
                  product(tokens, width, (gated ? 16 : 12) * width) +
                      2 * product(tokens, tokens, width));
        EXPECT_EQ(block.hidden_bytes,
                  static_cast<std::size_t>(tokens * width) * sizeof(float));
      }
      EXPECT_EQ(info.embed_flops, product(tokens, 4 * 4, width));
      EXPECT_EQ(info.finish_flops, product(tokens, width, 4 * 8));
    }
  }
}

// With the longest prompt of PixArt-Sigma's pipeline.
TEST(NetworkMeter, CountsTheOperationsOfAPixArt) {
  const PixArtConfig config = small_pixart_config();
  const DenoiserInfo info = describe(config)->info({4, 6, 10}, DType::f32);
  const std::int64_t width = config.width();
  ASSERT_EQ(info.blocks.size(), 4U);
  EXPECT_EQ(info.blocks[2].flops,
            product(15, width, 14 * width) + 2 * product(15, 15 + 300, width));
  EXPECT_EQ(info.bytes_per_prompt,
            static_cast<std::size_t>(4 * 300 * 2 * width) * sizeof(float));
  EXPECT_EQ(info.bytes_per_timestep,
            static_cast<std::size_t>(8 * width) * sizeof(float));
}

/// Of a unit, for latents of these sides and a prompt of 77 tokens.
double unit_flops(const UNetUnit& unit, const UNetSides& sides) {
  const std::int64_t here = sides.halved(unit.halvings).pixels();
  const std::int64_t there = sides.halved(unit.out_halvings()).pixels();
  const std::int64_t width = unit.out_channels;
  double flops = unit.sampler.empty() ? 0.0 : product(there, 9 * width, width);
  for (std::size_t i = 0; i < unit.resnets.size(); ++i) {
    const std::int64_t in = unit.resnet_input(i);
    flops += product(here, 9 * (in + width) + (in != width ? in : 0), width);
  }
  if (unit.depth > 0) {
    flops +=
        product(here, width, 2 * width) +
        static_cast<double>(unit.depth) * (product(here, width, 18 * width) +
                                           2 * product(here, here + 77, width));
  }
  return flops;
}

TEST(NetworkMeter, CountsTheOperationsOfAUNet) {
  for (const bool with_sizes : {false, true}) {
    const UNetConfig config = small_unet_config(with_sizes);
    const UNetLayout layout(config);
    for (const Shape& shape : {Shape{4, 8, 8}, Shape{4, 7, 5}}) {
      const UNetSides sides = UNetSides::of(shape);
      const DenoiserInfo info = describe(config)->info(shape, DType::f32);
      ASSERT_EQ(std::ssize(info.blocks), layout.size());
      for (int i = 0; i < layout.size(); ++i) {
        EXPECT_EQ(info.blocks[static_cast<std::size_t>(i)].flops,
                  unit_flops(layout.unit(i), sides));
      }
      EXPECT_EQ(info.embed_flops, product(sides.pixels(), 9 * 4, 24));
      EXPECT_EQ(info.finish_flops, product(sides.pixels(), 9 * 24, 4));
    }
  }
}

/// Compares forecast and run: bytes of a row's boundary in front of each block,
/// and the workspace of a pass through each segment.
void expect_as_forecast(const NetworkDescription& description,
                        const Condition& condition, const Shape& shape,
                        DType compute) {
  ExecContext ctx;
  ShardContext whole;
  const DenoiserInfo info = description.info(shape, compute);
  const auto count = static_cast<int>(info.blocks.size());
  std::vector<Boundary> boundaries(1);
  for (int begin = 0; begin < count; begin += 2) {
    const int end = std::min(begin + 2, count);
    const auto part = load_random(ctx, description, compute, {begin, end});
    Rows rows;
    rows.add(ctx, *part, latents_of_row(0, shape), 500.0, condition);
    ExecContext fresh;  // what `prepare` took is not of the pass
    if (begin == 0) {
      part->embed(fresh, whole, rows.batch(), boundaries);
    }
    EXPECT_EQ(bytes_of(boundaries[0]), info.boundary_bytes(begin)) << begin;
    part->run_blocks(fresh, whole, rows.batch(), begin, end, boundaries);
    if (end == count) {
      auto outputs = outputs_for(*part, rows.latents);
      part->finish(fresh, whole, rows.batch(), boundaries, outputs);
    }
    const NetworkMemory forecast =
        description.memory(shape, compute, DeviceKind::cpu,
                           WeightPlacement::resident, {begin, end});
    EXPECT_NEAR(static_cast<double>(fresh.workspace().peak_bytes()),
                static_cast<double>(forecast.pass_bytes),
                0.02 * static_cast<double>(forecast.pass_bytes))
        << begin;
  }
}

TEST(NetworkMeter, ForecastsBoundariesAndMemoryOfEverySegment) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    if (!kernels::supports(compute)) {
      continue;
    }
    DitConfig dit = small_config(64);
    dit.sample_size = 32;
    expect_as_forecast(*describe(dit), 3, {4, 32, 32}, compute);
    expect_as_forecast(*describe(small_pixart_config(64)), prompt(1, 300),
                       {4, 24, 40}, compute);
    const UNetConfig unet = small_unet_config(true, 32);
    expect_as_forecast(*describe(unet), unet_condition(unet, 1, 77),
                       {4, 41, 33}, compute);
  }
}

// Two ranks of a DiT: each has half of the tokens, and reads the keys and
// values of the other in every block.
TEST(NetworkMeter, CountsWhatRanksDoAndExchange) {
  DitConfig config = small_config();
  config.sample_size = 64;
  const auto network = describe(config);
  const Shape latents{4, 64, 64};
  const std::int64_t tokens = 32 * 32;
  const DenoiserInfo info = network->info(latents, DType::f32);
  for (const int ranks : {2, 4}) {
    const ShardFigures figures = network->shard_figures(
        latents, DType::f32, DeviceKind::cpu, AttentionPlan::gather, ranks);
    ASSERT_EQ(figures.ranks.size(), static_cast<std::size_t>(ranks));
    const auto blocks = std::ssize(info.blocks);
    EXPECT_EQ(figures.exchanges, blocks + 1);
    EXPECT_NEAR(figures.slowest_share(info.flops()), 1.0 / ranks, 5e-3);
    const std::int64_t others = tokens - tokens / ranks;
    const std::int64_t attended =
        blocks * others * 2 * config.width() * std::int64_t{sizeof(float)};
    EXPECT_EQ(static_cast<std::int64_t>(figures.ranks[1].received_bytes),
              attended);
    EXPECT_EQ(static_cast<std::int64_t>(figures.ranks[0].received_bytes),
              attended + others * config.width() * std::int64_t{sizeof(float)});
    EXPECT_LT(figures.most_bytes(),
              network->memory(latents, DType::f32).pass_bytes * 2);
  }
}

}  // namespace
}  // namespace troupe::models
