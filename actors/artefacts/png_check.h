#pragma once

#include <filesystem>
#include <string>

#include "actors/artefacts/png.h"

namespace troupe::actors {

/// What a PNG file says of itself, and whether it is whole.
struct CheckedPng {
  std::string recipe;  ///< empty: none was found ahead of any damage
  PictureKind kind = PictureKind::image;
  std::string damage;  ///< "the file ends too early"; empty: it is whole
};

/// Reads the file chunk by chunk and compares every checksum; decodes nothing.
/// Texts are found as encode_png writes them: not compressed, before the
/// pixels.
/// Errors: those of read_file; Errc::corrupt_file for a file without a PNG's
/// signature.
[[nodiscard]] CheckedPng check_png(const std::filesystem::path& path);

}  // namespace troupe::actors
