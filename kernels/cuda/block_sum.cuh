#pragma once

#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// Bytes of shared memory that `block_sum` needs for blocks of `threads`.
[[nodiscard]] constexpr std::size_t block_sum_bytes(int threads) {
  return static_cast<std::size_t>(threads) / 32 * sizeof(double);
}

/// The sum of all threads' values, the same in every thread, in an order that
/// the number of threads fixes (whole warps): pairwise within a warp, then warp
/// by warp. All threads of the block call it, once in a kernel: it leaves the
/// shared memory in use.
template <typename Lane>
TROUPE_DEVICE double block_sum(Lane& lane, double value) {
  for (int mask = Lane::kWarp / 2; mask > 0; mask /= 2) {
    value += lane.shuffle_xor(value, mask);
  }
  auto* const sums = lane.template shared<double>();
  if (lane.thread() % Lane::kWarp == 0) {
    sums[lane.thread() / Lane::kWarp] = value;
  }
  lane.sync();
  double total = 0;
  for (int warp = 0; warp < lane.num_threads() / Lane::kWarp; ++warp) {
    total += sums[warp];
  }
  return total;
}

}  // namespace troupe::kernels::cuda
