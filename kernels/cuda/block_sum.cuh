#pragma once

#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// Bytes of shared memory that `block_sum` needs for blocks of `threads`.
[[nodiscard]] constexpr std::size_t block_sum_bytes(int threads) {
  return static_cast<std::size_t>(threads) / 32 * sizeof(double);
}

/// The sum of the values of all threads of the block, the same in every thread:
/// pairwise within a warp, then warp by warp. So the order depends on the
/// number of threads alone, which is a multiple of a warp. All threads call it,
/// and only once in a kernel: the shared memory is not free again afterwards.
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
