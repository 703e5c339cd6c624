#include "actors/artefacts/png_check.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "actors/artefacts/crc32.h"
#include "actors/artefacts/png_chunks.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/system.h"

namespace troupe::actors {
namespace {

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
void read_text(const PngChunk& chunk, CheckedPng& png) {
  constexpr std::size_t kLongestText = std::size_t{1} << 20U;
  if (chunk.content.size() > kLongestText) {
    return;  // none of ours
  }
  std::string_view rest(reinterpret_cast<const char*>(chunk.content.data()),
                        chunk.content.size());
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

/// Whether the checksum is that of the name and the content behind it.
bool has_right_checksum(const PngChunk& chunk) {
  const auto name = std::as_bytes(std::span(chunk.name));
  return crc32(chunk.content, crc32(name)) == chunk.checksum;
}

}  // namespace

CheckedPng check_png(const std::filesystem::path& path) {
  CheckedPng png;
  std::error_code no_size;  // read_file says what is wrong
  const std::uintmax_t size = std::filesystem::file_size(path, no_size);
  if (!no_size && size > kLargestPng) {
    png.damage = "it is longer than " + human_bytes(kLargestPng);
    return png;
  }
  const std::string content = read_file(path, kLargestPng);
  const auto bytes = std::as_bytes(std::span(content));
  require(is_png(bytes), Errc::corrupt_file, path.string(),
          "not a PNG: the first eight bytes are not its signature",
          "remove the file, or make it anew with --exists replace");
  const PngChunks chunks = png_chunks(bytes);
  bool has_pixels = false;
  for (const PngChunk& chunk : chunks.whole) {
    if (!has_right_checksum(chunk)) {
      png.damage = fmt::format("a checksum is wrong, of the chunk at byte {}",
                               chunk.begin);
      return png;
    }
    has_pixels = has_pixels || chunk.name == "IDAT";
    if (!has_pixels) {
      read_text(chunk, png);
    }
  }
  png.damage = chunks.fault;
  if (png.damage.empty() && chunks.whole.back().end() != bytes.size()) {
    png.damage = "bytes follow its end";
  }
  return png;
}

}  // namespace troupe::actors
