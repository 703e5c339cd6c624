#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "actors/artefacts/png.h"
#include "kernels/core/fields.h"

namespace troupe::actors {

/// How far the elements of tensors of equal shapes are apart, b being the file
/// that is compared with. Of pictures in units of a channel's step (0 to 255).
struct Distance {
  double largest_absolute = 0;  ///< |a − b|
  /// The largest, over the tensors, of max |a − b| / max |b|; of pictures
  /// max |a − b| / 255.
  double largest_relative = 0;
  /// Root of the mean of (a − b)², over the tensors that differ.
  double rmse = 0;
  /// 20 log10(peak / rmse), peak being 255, or max |b| of the tensors that
  /// differ. Unset where nothing differs, or all of b is zero.
  std::optional<double> psnr_db = {};
};

void visit_fields(auto& visit, AnyConst<Distance> auto& r) {
  visit({"largest_absolute_difference",
         "of all elements or pixels; absent if they cannot be compared"},
        r.largest_absolute);
  visit({"largest_relative_difference",
         "the same, by the other file's largest element; null: a tensor that "
         "differs is all zero there",
         "number or null"},
        r.largest_relative);
  visit({"rmse",
         "the same: root mean square of the differences, of the tensors that "
         "differ"},
        r.rmse);
  visit(or_null({"psnr_db",
                 "20 log10(peak / rmse), the peak being 255 of pictures, else "
                 "the other file's largest |element|; null: nothing differs, "
                 "or all is zero there"}),
        r.psnr_db);
}

/// Of two pictures of one size.
[[nodiscard]] Distance distance_of(const Image& a, const Image& b);

/// SSIM (Wang, Bovik, Sheikh & Simoncelli 2004): the mean over channels and
/// places of windows of 11 x 11 pixels, weighted by a Gaussian of deviation
/// 1.5; smaller windows where a picture is smaller. 1: equal. Windows lie in
/// the picture. Errors: Errc::internal for pictures of two sizes.
[[nodiscard]] double structural_similarity(const Image& a, const Image& b);

/// The unit of a picture's differences.
inline constexpr std::string_view kOfPicture = " of 255";

/// "at most 3 of 255 apart, 0.012 relative; RMSE 0.21, PSNR 61.7 dB". `unit`
/// follows the largest difference.
[[nodiscard]] std::string describe(const Distance& distance,
                                   std::string_view unit);

/// What two files have in common.
struct Comparison {
  bool same = false;
  std::string detail;
  /// Unset where elements cannot be compared.
  std::optional<Distance> distance = {};
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
