#pragma once

#include <optional>
#include <string>

namespace troupe::actors {

/// What two files have in common.
struct Comparison {
  bool same = false;
  std::string detail;
  /// Of all elements of tensors of equal shapes, the largest |a − b|; of
  /// pictures in units of a channel's step (0 to 255). Unset where elements
  /// cannot be compared.
  std::optional<double> largest_absolute = {};
  /// The largest, over the tensors, of max |a − b| / max |b|, b being the file
  /// that is compared with; of pictures max |a − b| / 255.
  std::optional<double> largest_relative = {};
};

/// Two files of the same kind: pixels of .png, tensors of .safetensors, .npz
/// and .npy by name. They are the same if all bytes are. With `tolerance` they
/// are also the same if the largest relative difference is at most that. Their
/// tensors may then differ in dtype, but not in name or shape; NaN and infinity
/// must stand at the same places of both.
/// Errors: those of read_image and read_stored; Errc::invalid_argument for
/// files of two kinds; Errc::unsupported for pixels that are not 8-bit RGB.
[[nodiscard]] Comparison compare_files(
    const std::string& path, const std::string& other,
    const std::optional<double>& tolerance = std::nullopt);

}  // namespace troupe::actors
