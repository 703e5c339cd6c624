#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/tensor.h"

namespace troupe::actors {

/// The texts of a PNG that are ours: the recipe and the kind.
inline constexpr const char* kRecipeKeyword = "troupe";
inline constexpr const char* kKindKeyword = "troupe.kind";
/// Bytes of a file; longer ones are not read.
inline constexpr std::size_t kLargestPng = std::size_t{256} << 20U;

/// Whether a file of this name is a PNG: it ends in ".png", in any case.
[[nodiscard]] bool is_png_name(std::string_view path);

/// What a picture is for: sheets and previews may be written over by the run
/// that goes on, images never.
enum class PictureKind : std::uint8_t { image, sheet, preview };
/// What the text under kKindKeyword says; any other is that of an image.
[[nodiscard]] PictureKind picture_kind(std::string_view text);

/// How a file stores its pixels, as far as 8-bit RGB cannot say it.
struct StoredColour {
  int bit_depth = 8;
  bool has_alpha = false;
  std::string space;  ///< of gAMA, sRGB and iCCP; empty: the file says nothing

  bool operator==(const StoredColour&) const = default;
};

/// 8-bit RGB pixels, row-major, three bytes each.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb = {};
  bool is_grey = false;     ///< encode_png writes one channel; all three equal
  std::string recipe = {};  ///< canonical JSON; empty: none
  PictureKind kind = PictureKind::image;
  StoredColour stored = {};  ///< of a file that was read; encode_png's own
};

/// [3, H, W] of bytes, or f32 (see pixel_bytes). One channel makes a grey
/// image. Errors: Errc::shape_mismatch; those of pixel_bytes.
[[nodiscard]] Image to_image(const Tensor& pixels);

/// A PNG file with the recipe in an iTXt chunk "troupe" and the kind of a sheet
/// or preview in a tEXt chunk "troupe.kind". The bytes depend on
/// the image alone: fixed compression level and filter, no time stamp.
[[nodiscard]] std::vector<std::byte> encode_png(const Image& image);

/// Reads any PNG as 8-bit RGB (transparency over black) with its "troupe"
/// chunks, tEXt or iTXt. Made for hostile files: at most 16384² pixels, 1 MiB
/// of recipe and 256 MiB of memory, whatever the header and the chunks say.
/// `place` names the file. Errors: Errc::corrupt_file.
[[nodiscard]] Image decode_png(const std::string& place,
                               std::span<const std::byte> bytes);

}  // namespace troupe::actors
