#pragma once

#include <cstdint>

namespace troupe::models {

/// Where the weights of a network's blocks lie when a GPU computes. Resident:
/// on the GPU. Offloaded: in pinned memory of the host, from where each block
/// is fetched when it is needed (kernels/offload.h). That is slower, but a
/// network may be larger than the GPU's memory; the bits are the same. On the
/// CPU both placements are equal.
enum class WeightPlacement : std::uint8_t { resident, offloaded };

}  // namespace troupe::models
