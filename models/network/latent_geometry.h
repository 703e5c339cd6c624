#pragma once

#include <cstdint>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/core/shape.h"

namespace troupe::models {

/// What the axes of a sample's latents are, or of its picture: [C, H, W], or
/// with frames [C, F, H, W].
struct LatentGeometry {
  std::int64_t channels = 0;
  std::optional<std::int64_t> frames;  ///< unset: a still picture
  std::int64_t height = 0;
  std::int64_t width = 0;

  /// Errors: Errc::shape_mismatch for another number of axes.
  [[nodiscard]] static LatentGeometry of(const Shape& shape) {
    require(shape.rank() == 3 || shape.rank() == 4, Errc::shape_mismatch,
            "latents",
            "got " + to_string(shape) + ", expected [C, H, W] or [C, F, H, W]");
    if (shape.rank() == 3) {
      return {shape[0], std::nullopt, shape[1], shape[2]};
    }
    return {shape[0], shape[1], shape[2], shape[3]};
  }
  [[nodiscard]] Shape shape() const {
    return frames ? Shape{channels, *frames, height, width}
                  : Shape{channels, height, width};
  }
  /// The same with other sides.
  [[nodiscard]] LatentGeometry with_sides(std::int64_t its_height,
                                          std::int64_t its_width) const {
    return {channels, frames, its_height, its_width};
  }

  friend bool operator==(const LatentGeometry&,
                         const LatentGeometry&) = default;
};

}  // namespace troupe::models
