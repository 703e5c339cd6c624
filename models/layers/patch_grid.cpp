#include "models/layers/patch_grid.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/core/error.h"

namespace troupe::models {
namespace {

// On the CPU a product is one call per row: more at once only take memory. A
// GPU wants many. Counted, not timed: a product of DiT-XL/2 into its width is
// 160 tiles of 128×256 with 4,096 tokens, 61 % of two rounds of an H100's 132
// processors, and 640 with 16,384, 97 % of five.
constexpr std::int64_t kHostTokensAtOnce = 4096;
constexpr std::int64_t kDeviceTokensAtOnce = 16384;

}  // namespace

std::int64_t PatchGrid::most_patches() const noexcept {
  return std::min(kMostTokens,
                  kMostElements / (patch_size * patch_size *
                                   std::max(in_channels, out_channels)));
}

Shape PatchGrid::nearest_latents(const Shape& wanted) const {
  const auto patches_of = [&](std::int64_t side) {
    return std::max<std::int64_t>((side + patch_size / 2) / patch_size, 1);
  };
  const std::int64_t most = most_patches();
  // No side of a square may be longer.
  const auto root = static_cast<std::int64_t>(
      std::floor(std::sqrt(static_cast<double>(most))));
  std::int64_t rows = patches_of(wanted[1]);
  std::int64_t columns = patches_of(wanted[2]);
  if (squares_only) {
    rows = columns = std::min(patches_of(std::max(wanted[1], wanted[2])), root);
  } else if (rows > most / columns) {
    // A narrow picture keeps its short side.
    const bool is_wide = rows < columns;
    std::int64_t& shorter = is_wide ? rows : columns;
    std::int64_t& longer = is_wide ? columns : rows;
    shorter = std::min(shorter, root);
    longer = most / shorter;
  }
  return {in_channels, rows * patch_size, columns * patch_size};
}

bool PatchGrid::fits(const Shape& latents) const {
  return latents.rank() == 3 && latents[1] > 0 && latents[2] > 0 &&
         nearest_latents(latents) == latents;
}

void PatchGrid::check(const Json& json) const {
  const std::int64_t tokens_per_side = sample_size / patch_size;
  if (sample_size % patch_size != 0 ||
      tokens_per_side > kMostTokens / tokens_per_side) {
    throw Error(Errc::unsupported, json.place(),
                "sample_size: got " + std::to_string(sample_size) +
                    ", expected a multiple of patch_size " +
                    std::to_string(patch_size) + " with at most " +
                    std::to_string(kMostTokens) + " tokens",
                "correct this file");
  }
  const std::int64_t channels = std::max(in_channels, out_channels);
  if (channels > kMostElements / (sample_size * sample_size)) {
    throw Error(Errc::unsupported, json.place(),
                "sample_size: got " + std::to_string(sample_size) + " with " +
                    std::to_string(channels) + " channels, expected at most " +
                    std::to_string(kMostElements) + " numbers per image",
                "correct this file");
  }
}

std::int64_t rows_at_once(std::int64_t num_tokens, DeviceKind kind) noexcept {
  const std::int64_t tokens =
      kind == DeviceKind::cpu ? kHostTokensAtOnce : kDeviceTokensAtOnce;
  return std::max<std::int64_t>(1, tokens / num_tokens);
}

}  // namespace troupe::models
