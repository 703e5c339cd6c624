#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/core/error.h"
#include "kernels/cuda/backend.cuh"

// How a kernel is written and started. A kernel is a struct of plain values
// with
//
//   static constexpr const char* kName;        for messages
//   static constexpr int kThreads;             of one block, at most
//   static constexpr bool kCooperates;         whether it syncs or shuffles
//   template <typename Lane> TROUPE_DEVICE void operator()(Lane& lane) const;
//
// The Lane is one thread. nvcc compiles the kernel with DeviceLane. The tests
// compile the same source for the host with HostLane, and their emulator runs
// every thread of it.

#if defined(__CUDACC__)
#define TROUPE_DEVICE __device__ __forceinline__
#include "kernels/cuda/device_lane.cuh"
#else
#define TROUPE_DEVICE inline
#include "kernels/cuda/host_lane.cuh"
#endif

namespace troupe::kernels::cuda {

/// Blocks of a launch.
struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;
};

#if defined(__CUDACC__)
template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads)
    run_kernel(const __grid_constant__ Kernel kernel) {
  DeviceLane lane;
  kernel(lane);
}
#endif

/// Queues `kernel` with blocks of `threads` (at most kThreads) and
/// `shared_bytes` of dynamic shared memory (at most 48 KiB). Does nothing for
/// an empty grid. Errors: Errc::unsupported for more than 2^31 - 1 blocks
/// (65,535 in y), Errc::device_lost, Errc::internal.
template <typename Kernel>
void launch(Backend& backend, const Kernel& kernel, Grid grid,
            int threads = Kernel::kThreads, std::size_t shared_bytes = 0) {
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= 4096,
                "the values of a kernel travel with its launch");
  if (grid.x < 1 || grid.y < 1) {
    return;
  }
  require(grid.x <= 0x7fffffff && grid.y <= 0xffff, Errc::unsupported,
          Kernel::kName, "more blocks than a GPU takes");
  require(threads >= 1 && threads <= Kernel::kThreads, Errc::internal,
          Kernel::kName,
          "more threads in a block than the kernel was built for");
#if defined(__CUDACC__)
  // Only the emulator uses it.
  static_cast<void>(Kernel::kCooperates);
  run_kernel<Kernel>
      <<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)),
         static_cast<unsigned>(threads), shared_bytes, backend.stream()>>>(
          kernel);
#else
  launch_on_host(backend.stream(),
                 {.blocks_x = grid.x,
                  .blocks_y = grid.y,
                  .threads = threads,
                  .shared_bytes = shared_bytes,
                  .cooperates = Kernel::kCooperates,
                  .name = Kernel::kName},
                 [kernel](HostLane& lane) { kernel(lane); });
#endif
  check(cudaGetLastError(), Kernel::kName);
}

/// Blocks of `threads` that cover `count` elements.
[[nodiscard]] inline std::int64_t blocks_for(std::int64_t count, int threads) {
  return (count + threads - 1) / threads;
}

}  // namespace troupe::kernels::cuda
