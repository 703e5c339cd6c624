#pragma once

#include <cstdint>
#include <span>

namespace troupe::models {

/// A size that a pipeline samples at, for pictures of about its aspect ratio.
struct ResolutionBin {
  double ratio = 1;         ///< height ÷ width, as the pipeline rounds it
  std::int64_t height = 0;  ///< pixels
  std::int64_t width = 0;
};

/// Those of PixArt's pipelines for a network that was trained with latents of
/// this side: 32, 64, 128 or 256. Empty for another side, where diffusers
/// refuses to choose ("Invalid sample size").
/// Source: diffusers pipelines/pixart_alpha/pipeline_pixart_sigma.py and
/// pipeline_pixart_alpha.py, ASPECT_RATIO_{256,512,1024,2048}_BIN.
[[nodiscard]] std::span<const ResolutionBin> pixart_bins(
    std::int64_t sample_size);

/// The bin whose ratio is nearest to that of a picture, the first if two are;
/// `bins` has one at least.
/// Source: diffusers image_processor.py, `classify_height_width_bin`.
[[nodiscard]] const ResolutionBin& nearest_bin(
    std::span<const ResolutionBin> bins, std::int64_t height,
    std::int64_t width);

}  // namespace troupe::models
