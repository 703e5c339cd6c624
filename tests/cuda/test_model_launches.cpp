#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/support.h"
#include "tests/models/dit_fixtures.h"

// Rows share what a pass launches. Only emulated GPUs count.

namespace troupe::models {
namespace {

/// Launches of a pass through one block, when everything was seen before.
std::uint64_t launches_of(ExecContext& ctx, const Denoiser& dit, int count) {
  Rows rows = small_rows(ctx, dit, count);
  for (std::size_t i = 0; i < rows.conditions.size(); ++i) {
    rows.prepared[i] =
        dit.prepare(ctx, static_cast<std::int64_t>(i), rows.timesteps);
    rows.conditions[i] = rows.prepared[i].get();
  }
  ShardContext whole;
  std::vector<Boundary> boundaries(rows.latents.size());
  dit.embed(ctx, whole, rows.batch(), boundaries);
  std::uint64_t launches = 0;
  for (int pass = 0; pass < 4; ++pass) {
    const std::uint64_t before = emulator::counters(0).operations;
    dit.run_blocks(ctx, whole, rows.batch(), 1, 2, boundaries);
    launches = emulator::counters(0).operations - before;
  }
  ctx.synchronize();
  return launches;
}

TEST(DitLaunches, DoNotGrowWithTheRows) {
  ExecContext ctx(1, kernels::kGpu);
  const auto dit = load_random(ctx, *describe(small_config(16)), DType::bf16);
  const std::uint64_t of_one = launches_of(ctx, *dit, 1);
  EXPECT_EQ(launches_of(ctx, *dit, 2), of_one);
  EXPECT_EQ(launches_of(ctx, *dit, 7), of_one);
}

}  // namespace
}  // namespace troupe::models
