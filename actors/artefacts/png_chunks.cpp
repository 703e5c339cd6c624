#include "actors/artefacts/png_chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/artefacts/crc32.h"
#include "actors/artefacts/output_paths.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
/// More chunks make no picture: of IDAT chunks of 8 KiB, as libpng writes them,
/// that is 2 GiB.
constexpr std::size_t kMaxChunks = 1 << 18;

std::uint32_t big_endian(std::span<const std::byte, 4> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) {
    value = value << 8U | std::to_integer<std::uint32_t>(byte);
  }
  return value;
}

bool is_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The chunk at byte `begin`. Writes its fault to `fault`, which stays empty
/// for a whole chunk.
PngChunk chunk_at(std::span<const std::byte> bytes, std::size_t begin,
                  std::string& fault) {
  constexpr std::size_t kHead = 8;  // length and name
  constexpr std::size_t kCheck = 4;
  const std::span<const std::byte> rest = bytes.subspan(begin);
  PngChunk chunk{.begin = begin, .name = {}, .content = {}};
  if (rest.size() < kHead) {
    fault = "the file ends too early";
    return chunk;
  }
  const std::size_t length = big_endian(rest.first<4>());
  chunk.name = as_text(rest.subspan(4, 4));
  if (!std::ranges::all_of(chunk.name, is_letter)) {
    fault = fmt::format("what stands at byte {} is no chunk", begin);
    return chunk;
  }
  const std::size_t left = rest.size() - kHead;
  if (length + kCheck > left) {
    fault = fmt::format(
        "the chunk {} at byte {} claims {} bytes and a checksum, and the file "
        "has {} more",
        chunk.name, begin, length, left);
    return chunk;
  }
  chunk.content = rest.subspan(kHead, length);
  chunk.checksum = big_endian(rest.subspan(kHead + length).first<4>());
  return chunk;
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

bool is_png(std::span<const std::byte> bytes) {
  return as_text(bytes).starts_with(kSignature);
}

PngChunks png_chunks(std::span<const std::byte> bytes) {
  PngChunks chunks;
  bool has_pixels = false;
  for (std::size_t at = kSignature.size();;) {
    const PngChunk chunk = chunk_at(bytes, at, chunks.fault);
    if (chunks.fault.empty() && chunks.whole.size() == kMaxChunks) {
      chunks.fault = "it has too many chunks";
    }
    if (!chunks.fault.empty()) {
      return chunks;
    }
    chunks.whole.push_back(chunk);
    has_pixels = has_pixels || chunk.name == "IDAT";
    if (chunk.name == "IEND") {
      chunks.fault = has_pixels ? "" : "it has no pixels";
      return chunks;
    }
    at = chunk.end();
  }
}

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
  if (is_blank(content) || kSignature.starts_with(content)) {
    png.damage = content.empty()     ? "it is empty"
                 : is_blank(content) ? "it begins with zeros"
                                     : "the file ends too early";
    png.is_wreck = true;
    return png;
  }
  require(is_png(bytes), Errc::corrupt_file, path.string(),
          "not a PNG: the first eight bytes are not its signature",
          "remove the file, or make it anew with --exists replace");
  const PngChunks chunks = png_chunks(bytes);
  png.is_wreck = !chunks.fault.empty();
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
