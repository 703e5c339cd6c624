#pragma once

#include <cstdint>

#include "kernels/core/shard_context.h"

namespace troupe::kernels {

/// Which pixels of an image of these sides a tensor [B, pixels, C] holds. They
/// are counted row by row.
struct ImagePart {
  std::int64_t height = 0;
  std::int64_t width = 0;
  RowRange pixels;

  [[nodiscard]] static ImagePart whole(std::int64_t height,
                                       std::int64_t width) {
    return {height, width, {0, height * width}};
  }
  [[nodiscard]] bool is_whole() const noexcept {
    return pixels == RowRange{0, height * width};
  }
  /// Rows [first, end) of the image, as far as it has them.
  [[nodiscard]] ImagePart rows(std::int64_t first, std::int64_t end) const {
    const auto begin_of = [this](std::int64_t row) {
      return (row < 0 ? 0 : row > height ? height : row) * width;
    };
    return {height, width, {begin_of(first), begin_of(end)}};
  }
};

}  // namespace troupe::kernels
