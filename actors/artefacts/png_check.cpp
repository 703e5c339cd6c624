#include "actors/artefacts/png_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>

#include "actors/artefacts/crc32.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr std::uint32_t kLongestText = std::uint32_t{1} << 20U;
constexpr const char* kTooShort = "the file ends too early";

struct Chunk {
  std::string type;
  std::string text;  ///< content of iTXt and tEXt, unless it is too long
};

/// Reads one chunk after the other.
class ChunkReader {
 public:
  explicit ChunkReader(std::ifstream& file) : file_(file) {}

  /// Null once `damage` says why there is none.
  [[nodiscard]] std::optional<Chunk> next(std::string& damage) {
    const auto begin = static_cast<std::int64_t>(file_.tellg());
    std::array<char, 8> head{};
    if (!file_.read(head.data(), head.size())) {
      damage = kTooShort;
      return std::nullopt;
    }
    std::uint32_t left = big_endian(head);
    Chunk chunk{.type = std::string(head.data() + 4, 4), .text = {}};
    const bool is_text =
        (chunk.type == "iTXt" || chunk.type == "tEXt") && left <= kLongestText;
    std::uint32_t crc = crc32(std::as_bytes(std::span(chunk.type)));
    while (left > 0) {
      const std::size_t count = std::min<std::size_t>(left, piece_.size());
      if (!file_.read(piece_.data(), static_cast<std::streamsize>(count))) {
        damage = kTooShort;
        return std::nullopt;
      }
      crc = crc32(std::as_bytes(std::span(piece_).first(count)), crc);
      if (is_text) {
        chunk.text.append(piece_.data(), count);
      }
      left -= static_cast<std::uint32_t>(count);
    }
    std::array<char, 4> sum{};
    if (!file_.read(sum.data(), sum.size())) {
      damage = kTooShort;
      return std::nullopt;
    }
    if (big_endian(sum) != crc) {
      damage =
          fmt::format("a checksum is wrong, of the chunk at byte {}", begin);
      return std::nullopt;
    }
    return chunk;
  }

 private:
  static std::uint32_t big_endian(std::span<const char> bytes) {
    std::uint32_t value = 0;
    for (const char byte : bytes.first(4)) {
      value = value << 8U | static_cast<unsigned char>(byte);
    }
    return value;
  }

  std::ifstream& file_;
  std::string piece_ = std::string(65536, 0);
};

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
void read_text(const Chunk& chunk, CheckedPng& png) {
  std::string_view rest = chunk.text;
  const std::string_view keyword = take_string(rest);
  if (chunk.type == "tEXt" && keyword == "troupe.kind") {
    png.kind = rest == "sheet"     ? PictureKind::sheet
               : rest == "preview" ? PictureKind::preview
                                   : PictureKind::image;
  }
  if (chunk.type == "iTXt" && keyword == "troupe" && rest.size() > 2 &&
      rest[0] == 0) {
    rest.remove_prefix(2);
    (void)take_string(rest);
    (void)take_string(rest);
    png.recipe = rest;
  }
}

}  // namespace

CheckedPng check_png(const std::filesystem::path& path) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), Errc::io, path.string(), "cannot read the file",
          "check its permissions");
  std::array<char, kSignature.size()> signature{};
  file.read(signature.data(), signature.size());
  require(file && std::ranges::equal(signature, kSignature), Errc::corrupt_file,
          path.string(),
          "not a PNG: the first eight bytes are not its signature",
          "remove the file, or make it anew with --exists replace");
  CheckedPng png;
  ChunkReader reader(file);
  bool has_pixels = false;
  bool is_at_end = false;
  while (!is_at_end && png.damage.empty()) {
    if (const std::optional<Chunk> chunk = reader.next(png.damage)) {
      has_pixels = has_pixels || chunk->type == "IDAT";
      is_at_end = chunk->type == "IEND";
      if (!has_pixels) {
        read_text(*chunk, png);
      }
    }
  }
  if (is_at_end && !has_pixels) {
    png.damage = "it has no pixels";
  } else if (is_at_end && file.peek() != std::ifstream::traits_type::eof()) {
    png.damage = "bytes follow its end";
  }
  return png;
}

}  // namespace troupe::actors
