#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/artefacts/png.h"

// PNG files as they lie on the disk: nothing is decoded.

namespace troupe::actors {

/// A chunk and where it lies in the bytes of a PNG.
struct PngChunk {
  std::size_t begin = 0;
  std::string_view name;
  std::span<const std::byte> content;
  std::uint32_t checksum = 0;  ///< of name and content, as the file has it

  [[nodiscard]] std::size_t end() const {
    constexpr std::size_t kAround = 12;  // length, name and checksum
    return begin + kAround + content.size();
  }
};

/// The chunks of a PNG, in order, as far as they lie in its bytes.
struct PngChunks {
  std::vector<PngChunk> whole;
  /// The fault behind the last whole chunk; empty: the file has pixels and ends
  /// with its end chunk.
  std::string fault;
};

/// Whether the first eight bytes are a PNG's signature.
[[nodiscard]] bool is_png(std::span<const std::byte> bytes);

/// Walks from chunk to chunk behind the signature and holds every length
/// against the bytes, before anybody allocates what a chunk claims. Checks no
/// content and no checksum. `bytes` must outlive the result.
[[nodiscard]] PngChunks png_chunks(std::span<const std::byte> bytes);

/// The recipe and the kind of a PNG file, and whether it is whole.
struct CheckedPng {
  std::string recipe;  ///< empty: none was found ahead of any damage
  PictureKind kind = PictureKind::image;
  std::string damage;  ///< "the file ends too early"; empty: it is whole
  /// The damage leaves no whole picture that could be lost.
  bool is_wreck = false;
};

/// Reads the file chunk by chunk and compares every checksum; decodes nothing.
/// Texts are found as encode_png writes them: not compressed, before the
/// pixels.
/// Errors: those of read_file; Errc::corrupt_file for a file without a PNG's
/// signature, unless it ends within that or is blank.
[[nodiscard]] CheckedPng check_png(const std::filesystem::path& path);

}  // namespace troupe::actors
