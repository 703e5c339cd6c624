#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/core/device.h"
#include "kernels/core/shape.h"
#include "models/files/json.h"

namespace troupe::models {

/// How networks that see an image as square patches cut it: one token a patch.
struct PatchGrid {
  static constexpr std::int64_t kMostTokens = std::int64_t{1} << 16;
  /// Most elements of one image's latents or output: 1 GiB of f32. (No tensor
  /// of a checkpoint limits the size of latents.)
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

  std::int64_t in_channels = 4;
  std::int64_t out_channels = 4;
  std::int64_t sample_size = 32;  ///< side it was trained with
  std::int64_t patch_size = 2;
  bool squares_only = false;

  /// [C, H, W] of the size it was trained with.
  [[nodiscard]] Shape latent_shape() const {
    return {in_channels, sample_size, sample_size};
  }
  /// Tokens of latents [C, H, W].
  [[nodiscard]] std::int64_t num_tokens(const Shape& latents) const noexcept {
    return (latents[1] / patch_size) * (latents[2] / patch_size);
  }
  /// `wanted` [C, H, W] if it can be cut, else the nearest shape that can.
  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const;
  /// Whether latents of this shape can be cut.
  [[nodiscard]] bool fits(const Shape& latents) const;

  /// Checks sample_size of config.json against the other numbers.
  /// Errors: Errc::unsupported.
  void check(const Json& json) const;

 private:
  [[nodiscard]] std::int64_t most_patches() const noexcept;
};

/// How many rows are computed together; larger batches are computed in turns.
/// Bits do not depend on it, memory does.
[[nodiscard]] std::int64_t rows_at_once(std::int64_t num_tokens,
                                        DeviceKind kind) noexcept;

}  // namespace troupe::models
