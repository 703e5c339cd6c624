#pragma once

#include <cstdint>

#include "kernels/core/device.h"
#include "models/denoiser.h"
#include "models/dit_config.h"
#include "models/placement.h"
#include "models/segment.h"

namespace troupe::models {

/// The segment with its end filled in. Errors: Errc::invalid_argument for
/// blocks that do not exist.
[[nodiscard]] SegmentRange checked_segment(const DitConfig& config,
                                           SegmentRange segment);

/// What follows from the configuration: shapes, branch order, costs.
[[nodiscard]] DenoiserInfo dit_info(const DitConfig& config, DType compute);

/// Rows computed together; more are computed in turns. Bits do not depend on
/// it, memory does.
[[nodiscard]] std::int64_t dit_rows_at_once(const DitConfig& config,
                                            DeviceKind kind) noexcept;

/// Bytes a segment needs once loaded in `compute`: packed weights, and for
/// `rows` rows (0: none) the activations, as many as the device computes at
/// once, latents, outputs and what a sampler remembers. Offloaded blocks count
/// for nothing: see dit_visiting_bytes. Known before any weight is read.
[[nodiscard]] std::uint64_t dit_required_bytes(
    const DitConfig& config, SegmentRange segment, DType compute,
    std::int64_t rows, WeightPlacement placement = WeightPlacement::resident,
    DeviceKind kind = DeviceKind::cpu);

/// Bytes that offloaded blocks take on the device, in every context: the two
/// places of kernels::OffloadedLayers.
[[nodiscard]] std::uint64_t dit_visiting_bytes(const DitConfig& config,
                                               DType compute);

}  // namespace troupe::models
