#include "kernels/cuda/launch.cuh"

#include "tests/cuda/emulator/blocks.h"
#include "tests/cuda/emulator/machine.h"
#include "tests/cuda/emulator/shared_memory.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::int64_t kMostBlocksX = (std::int64_t{1} << 31U) - 1;
constexpr std::int64_t kMostBlocksY = 65535;
constexpr int kMostThreads = 1024;

bool is_possible(const HostLaunch& launch) {
  return launch.blocks_x >= 1 && launch.blocks_x <= kMostBlocksX &&
         launch.blocks_y >= 1 && launch.blocks_y <= kMostBlocksY &&
         launch.threads >= 1 && launch.threads <= kMostThreads;
}

}  // namespace

void launch_on_host(cudaStream_t handle, const HostLaunch& launch,
                    std::function<void(HostLane&)> kernel) {
  (void)emulator::stream_call(
      "a launch", handle,
      [&](emulator::Stream& stream, emulator::Device& device) {
        if (!is_possible(launch)) {
          return cudaErrorInvalidConfiguration;
        }
        if (launch.shared_bytes > emulator::SharedMemory::kMostBytes) {
          return cudaErrorInvalidValue;
        }
        if (device.index != emulator::current_device()) {
          return cudaErrorInvalidResourceHandle;
        }
        return emulator::push(stream, {std::string("the kernel ") + launch.name,
                                       [launch, kernel = std::move(kernel)] {
                                         emulator::run_blocks(launch, kernel);
                                       }});
      });
}

}  // namespace troupe::kernels::cuda
