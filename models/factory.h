#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

/// Whether there is a class for every part, the parts fit together and the
/// files hold nothing that their class does not have, before anything is
/// loaded. Returns a line for each part with tensors that are left behind and
/// not used. Errors: Errc::unsupported; Errc::corrupt_file.
std::vector<std::string> check_supported(const Checkpoint& checkpoint);

}  // namespace troupe::models
