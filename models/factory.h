#pragma once

#include <cstdint>
#include <memory>

#include "models/autoencoder_kl.h"
#include "models/checkpoint.h"
#include "models/denoiser.h"
#include "models/placement.h"
#include "models/segment.h"

namespace troupe::models {

/// Reads config.json and the segment's weights. The table of classes is in
/// factory.cpp. Errors: Errc::unsupported for a class nobody wrote yet; as the
/// model's constructor.
[[nodiscard]] std::unique_ptr<Denoiser> load_denoiser(
    ExecContext& ctx, const Component& component, DType compute,
    SegmentRange segment = {},
    WeightPlacement placement = WeightPlacement::resident);

[[nodiscard]] std::unique_ptr<AutoencoderKl> load_autoencoder(
    ExecContext& ctx, const Component& component, DType compute);

/// Bytes of packed weights and activations (`rows` rows at once; one picture of
/// the transformer's size), known from headers and configurations alone.
[[nodiscard]] std::uint64_t required_bytes(const Checkpoint& checkpoint,
                                           DType compute, std::int64_t rows,
                                           SegmentRange segment = {});

/// Whether there is a class for every part and the parts fit together, before
/// anything is loaded. Errors: Errc::unsupported; Errc::corrupt_file.
void check_supported(const Checkpoint& checkpoint);

}  // namespace troupe::models
