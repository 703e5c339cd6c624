#include "actors/artefacts/png_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "actors/artefacts/crc32.h"
#include "actors/artefacts/png_chunks.h"
#include "kernels/core/error.h"
#include "kernels/core/system.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t kLongestText = std::uint64_t{1} << 20U;

/// Hands `take` the bytes [begin, end) in pieces; false where they are not
/// there: the file was cut short meanwhile.
template <typename Take>
bool read_pieces(const PngBytes& bytes, std::uint64_t begin, std::uint64_t end,
                 Take take) {
  std::array<std::byte, 65536> piece;  // NOLINT: written before it is read
  while (begin < end) {
    const auto part = std::span(piece).first(static_cast<std::size_t>(
        std::min<std::uint64_t>(end - begin, piece.size())));
    if (!bytes.read(begin, part)) {
      return false;
    }
    take(part);
    begin += part.size();
  }
  return true;
}

/// What is wrong with the checksum of a chunk that lies in the file; empty:
/// nothing.
std::string checksum_fault(const PngBytes& bytes, const PngChunk& chunk) {
  // It covers the name, which is the second half of the head, and the content.
  std::uint32_t crc = 0;
  std::uint32_t stored = 0;
  const std::uint64_t check = chunk.end() - PngChunk::kCheck;
  const bool is_there =
      read_pieces(
          bytes, chunk.content() - 4, check,
          [&](std::span<const std::byte> part) { crc = crc32(part, crc); }) &&
      read_pieces(bytes, check, chunk.end(),
                  [&](std::span<const std::byte> part) {
                    for (const std::byte byte : part) {
                      stored = stored << 8U | std::to_integer<unsigned>(byte);
                    }
                  });
  if (!is_there) {
    return "the file ends too early";
  }
  return stored == crc
             ? ""
             : fmt::format("a checksum is wrong, of the chunk at byte {}",
                           chunk.begin);
}

/// The content of a text chunk; empty if it is too long to be one of ours.
std::string text_of(const PngBytes& bytes, const PngChunk& chunk) {
  std::string text;
  if (chunk.length <= kLongestText) {
    text.resize(static_cast<std::size_t>(chunk.length));
    if (!bytes.read(chunk.content(), std::as_writable_bytes(std::span(text)))) {
      text.clear();
    }
  }
  return text;
}

/// Cuts off what ends in a zero byte; empty if none is there.
std::string_view take_string(std::string_view& text) {
  const std::size_t end = text.find('\0');
  const std::string_view first =
      text.substr(0, end == std::string_view::npos ? 0 : end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return first;
}

/// tEXt: keyword, text. iTXt: keyword, two bytes of compression, language,
/// translated keyword, text.
void read_text(const PngBytes& bytes, const PngChunk& chunk, CheckedPng& png) {
  if (chunk.name != "tEXt" && chunk.name != "iTXt") {
    return;
  }
  const std::string text = text_of(bytes, chunk);
  std::string_view rest = text;
  const std::string_view keyword = take_string(rest);
  if (chunk.name == "tEXt" && keyword == kKindKeyword) {
    png.kind = picture_kind(rest);
  }
  if (chunk.name == "iTXt" && keyword == kRecipeKeyword && rest.size() > 2 &&
      rest[0] == 0) {
    rest.remove_prefix(2);
    (void)take_string(rest);
    (void)take_string(rest);
    png.recipe = rest;
  }
}

}  // namespace

CheckedPng check_png(const std::filesystem::path& path) {
  const PngFile bytes(path);
  require(is_png(bytes), Errc::corrupt_file, path.string(),
          "not a PNG: the first eight bytes are not its signature",
          "remove the file, or make it anew with --exists replace");
  CheckedPng png;
  if (bytes.size() > kLargestPng) {
    png.damage = "it is longer than " + human_bytes(kLargestPng);
    return png;
  }
  bool has_pixels = false;
  PngChunk chunk;
  int count = 0;
  for (std::uint64_t at = kPngSignatureBytes; chunk.name != "IEND";
       at = chunk.end()) {
    chunk = png_chunk_at(bytes, at, png.damage);
    if (png.damage.empty() && count++ == kMaxPngChunks) {
      png.damage = kTooManyChunks;
    }
    if (png.damage.empty()) {
      png.damage = checksum_fault(bytes, chunk);
    }
    if (!png.damage.empty()) {
      return png;
    }
    has_pixels = has_pixels || chunk.name == "IDAT";
    if (!has_pixels) {
      read_text(bytes, chunk, png);
    }
  }
  if (!has_pixels) {
    png.damage = "it has no pixels";
  } else if (chunk.end() != bytes.size()) {
    png.damage = "bytes follow its end";
  }
  return png;
}

}  // namespace troupe::actors
