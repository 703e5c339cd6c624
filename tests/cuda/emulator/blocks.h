#pragma once

#include <functional>

#include "kernels/cuda/host_lane.cuh"

namespace troupe::emulator {

/// Walks all blocks of a launch in a drawn order, the threads of a cooperating
/// kernel in turns of a drawn order.
void run_blocks(const kernels::cuda::HostLaunch& launch,
                const std::function<void(kernels::cuda::HostLane&)>& kernel);

}  // namespace troupe::emulator
