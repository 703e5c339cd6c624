#pragma once

#include <cstdint>

namespace troupe::models {

/// Where a network's blocks keep their weights on a device with memory of its
/// own: there, or in pinned memory of the host from where they visit block by
/// block (kernels/offload.h): slower, the same bits, and room for networks
/// larger than the device. On the CPU there is no difference.
enum class WeightPlacement : std::uint8_t { resident, offloaded };

}  // namespace troupe::models
