#include "actors/artefacts/png_chunks.h"

#include <fmt/format.h>

#include <algorithm>

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

/// The chunk at byte `begin`. What is wrong with it goes to `fault`, which
/// stays empty for a chunk that is whole.
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

}  // namespace troupe::actors
