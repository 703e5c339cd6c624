#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "models/autoencoder_kl.h"
#include "models/checkpoint.h"
#include "models/denoiser.h"
#include "models/segment.h"

namespace troupe::models {

/// Reads config.json and the segment's weights. The table of classes is in
/// factory.cpp. Errors: Errc::unsupported for a class nobody wrote yet; as the
/// model's constructor.
[[nodiscard]] std::unique_ptr<Denoiser> load_denoiser(
    ExecContext& ctx, const Component& component, DType compute,
    SegmentRange segment = {});

/// A bundled configuration ("dit-xl-2-256") or a folder's config.json, with
/// random weights.
[[nodiscard]] std::unique_ptr<Denoiser> random_denoiser(
    ExecContext& ctx, std::string_view bundled_name, std::uint64_t seed,
    DType compute, SegmentRange segment = {});

[[nodiscard]] std::unique_ptr<AutoencoderKl> load_autoencoder(
    ExecContext& ctx, const Component& component, DType compute);

/// Bytes of packed weights and activations (`rows` rows at once; one picture of
/// the transformer's size), known from headers and configurations alone.
[[nodiscard]] std::uint64_t required_bytes(const Checkpoint& checkpoint,
                                           DType compute, std::int64_t rows,
                                           SegmentRange segment = {});
[[nodiscard]] std::uint64_t required_bytes(std::string_view bundled_name,
                                           DType compute, std::int64_t rows,
                                           SegmentRange segment = {});

/// Names that random_denoiser knows.
[[nodiscard]] std::vector<std::string_view> bundled_names();

}  // namespace troupe::models
