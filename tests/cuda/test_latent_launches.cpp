#include <functional>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/cuda/ops.h"
#include "kernels/patchify.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/support.h"

// Latents are small and a launch is what they cost. Only emulated GPUs count.

namespace troupe::kernels {
namespace {

emulator::Counters spent_by(const std::function<void()>& fn) {
  const emulator::Counters before = emulator::counters(0);
  fn();
  emulator::Counters spent = emulator::counters(0);
  spent.operations -= before.operations;
  spent.host_waits -= before.host_waits;
  spent.allocations -= before.allocations;
  return spent;
}

TEST(LatentsOnGpu, EveryOperationIsOneLaunchThatNobodyWaitsFor) {
  ExecContext ctx(1, kGpu);
  const Shape shape{1, 4, 32, 32};
  const Tensor a = upload(ctx, random(shape, DType::f32, 1));
  const Tensor b = upload(ctx, random(shape, DType::f32, 2));
  Tensor out = poisoned(ctx, shape, DType::f32);
  Tensor half = poisoned(ctx, shape, DType::bf16);
  Tensor tokens = poisoned(ctx, {1, 256, 16}, DType::bf16);
  Tensor wide = poisoned(ctx, {1, 256, 16}, DType::f32);
  Tensor pixels = poisoned(ctx, {1, 32, 32, 4}, DType::bf16);
  Tensor doubled = poisoned(ctx, {1, 64, 64, 4}, DType::bf16);
  Tensor values = poisoned(ctx, {8, 8}, DType::u8);
  std::vector<Tensor> rows(64, poisoned(ctx, shape, DType::f32));
  Tensor batch = poisoned(ctx, {64, 1, 4, 32, 32}, DType::f32);
  const Term terms[] = {{0.5, &a}, {0.25, &b}, {2.0, &out}};

  const std::vector<std::function<void()>> operations = {
      [&] { cuda::combine(ctx, terms, out); },
      [&] { cuda::clamp(ctx, -1, 1, out); },
      [&] { cuda::guide(ctx, a, b, 4, 3072, out); },
      [&] { cuda::scale_by_learned_variance(ctx, a, true, -9, -4, out); },
      [&] { cuda::add(ctx, a, out); },
      [&] { cuda::convert(ctx, a, half); },
      [&] { cuda::add_carry(ctx, out, 0.5F, a, b, out); },
      [&] { cuda::sum_squared_difference(ctx, a, b, values, 0); },
      [&] { cuda::sum_squares(ctx, a, values, 1); },
      [&] { cuda::sum(ctx, a, values, 1); },
      [&] { cuda::bytes_equal(ctx, a, b, values, 2); },
      [&] { cuda::all_finite(ctx, a, values, 3); },
      [&] { patchify(ctx, a, 2, tokens); },
      [&] { unpatchify(ctx, wide, 2, out); },
      [&] { to_channels_last(ctx, a, pixels); },
      [&] { to_channels_first(ctx, pixels, out); },
      [&] { upsample_nearest2x(ctx, pixels, doubled); },
      [&] { gather(ctx, rows, batch); },
      [&] { scatter(ctx, batch, rows); }};
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const emulator::Counters spent = spent_by(operations[i]);
    EXPECT_EQ(spent.operations, 1U) << "operation " << i;
    EXPECT_EQ(spent.host_waits, 0U) << "operation " << i;
    EXPECT_EQ(spent.allocations, 0U) << "operation " << i;
  }
}

TEST(LatentsOnGpu, LargeOnesTakeMemoryFromTheWorkspaceOnly) {
  ExecContext ctx(1, kGpu);
  const Tensor a = upload(ctx, random({100000}, DType::f32, 1));
  const Tensor b = upload(ctx, random({100000}, DType::f32, 2));
  Tensor out = upload(ctx, a);
  Tensor values = poisoned(ctx, {8, 8}, DType::u8);
  const auto all = [&] {
    cuda::sum_squared_difference(ctx, a, b, values, 0);
    cuda::bytes_equal(ctx, a, b, values, 1);
    cuda::add_carry(ctx, out, 0.5F, a, b, out);
  };
  all();
  const emulator::Counters spent = spent_by(all);
  EXPECT_EQ(spent.allocations, 0U);
  EXPECT_EQ(spent.host_waits, 0U);
  EXPECT_EQ(spent.operations, 2U + 2U + 3U);
}

}  // namespace
}  // namespace troupe::kernels
