#include "actors/artefacts/png_chunks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr std::array<unsigned char, kPngSignatureBytes> kSignature = {
    0x89, 'P', 'N', 'G', 0x0D, 0x0A, 0x1A, 0x0A};

/// Whether a reader can do without it: the fifth bit of its first letter.
bool is_ancillary(const PngChunk& chunk) {
  return chunk.name[0] >= 'a' && chunk.name[0] <= 'z';
}

/// What is wrong with a chunk that lies in the file.
std::string fault_of(const PngChunk& chunk, bool is_first,
                     std::uint64_t max_chunk_bytes) {
  constexpr std::uint64_t kHeaderBytes = 13;
  if (is_first != (chunk.name == "IHDR") ||
      (is_first && chunk.length != kHeaderBytes)) {
    return fmt::format("the chunk {} at byte {} is not where or what it may be",
                       chunk.name, chunk.begin);
  }
  if (chunk.length > max_chunk_bytes && chunk.name != "IDAT" &&
      !is_ancillary(chunk)) {
    return fmt::format(
        "the chunk {} at byte {} has {} bytes, at most {} make "
        "sense",
        chunk.name, chunk.begin, chunk.length, max_chunk_bytes);
  }
  return {};
}

}  // namespace

bool PngInMemory::read(std::uint64_t at, std::span<std::byte> out) const {
  if (at > bytes_.size() || out.size() > bytes_.size() - at) {
    return false;
  }
  std::ranges::copy(bytes_.subspan(at, out.size()), out.begin());
  return true;
}

PngFile::PngFile(const std::filesystem::path& path)
    : descriptor_(open_regular_file(path)) {
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) {
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
}

PngFile::~PngFile() { ::close(descriptor_); }

bool PngFile::read(std::uint64_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ::ssize_t count =
        ::pread(descriptor_, out.data(), out.size(), static_cast<::off_t>(at));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    at += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

PngChunk png_chunk_at(const PngBytes& bytes, std::uint64_t begin,
                      std::string& fault) {
  std::array<std::byte, PngChunk::kHead> head{};
  PngChunk chunk{.begin = begin, .length = 0, .name = {}};
  if (!bytes.read(begin, head)) {
    fault = "the file ends too early";
    return chunk;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    chunk.length = chunk.length << 8U | std::to_integer<unsigned>(head[i]);
  }
  for (std::size_t i = 4; i < head.size(); ++i) {
    const char letter = static_cast<char>(head[i]);
    const bool is_letter =
        (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
    if (!is_letter) {
      fault = fmt::format("what stands at byte {} is no chunk", begin);
      return chunk;
    }
    chunk.name += letter;
  }
  const std::uint64_t left =
      bytes.size() - std::min(bytes.size(), chunk.content());
  if (chunk.length + PngChunk::kCheck > left) {
    fault = fmt::format(
        "the chunk {} at byte {} claims {} bytes and a checksum, and the file "
        "has {} more",
        chunk.name, begin, chunk.length, left);
  }
  return chunk;
}

bool is_png(const PngBytes& bytes) {
  std::array<std::byte, kSignature.size()> signature{};
  return bytes.read(0, signature) &&
         std::memcmp(signature.data(), kSignature.data(), kSignature.size()) ==
             0;
}

PngLayout walk_png(const std::string& place, const char* hint,
                   const PngBytes& bytes, std::uint64_t max_chunk_bytes) {
  require(is_png(bytes), Errc::corrupt_file, place,
          "not a PNG: the first eight bytes are not its signature", hint);
  PngLayout layout;
  std::uint64_t at = kSignature.size();
  std::string fault;
  for (int count = 0; fault.empty(); ++count) {
    const PngChunk chunk = png_chunk_at(bytes, at, fault);
    if (chunk.name == "IDAT" && layout.pixels == 0 && count > 0) {
      layout.pixels = at;
    }
    if (!fault.empty()) {
      break;
    }
    fault = count == kMaxPngChunks
                ? kTooManyChunks
                : fault_of(chunk, count == 0, max_chunk_bytes);
    if (chunk.length > max_chunk_bytes && is_ancillary(chunk)) {
      layout.too_large.push_back({at, chunk.end()});
    }
    at = chunk.end();
    if (fault.empty() && chunk.name == "IEND") {
      fault = layout.pixels == 0 ? "it has no pixels" : "";
      layout.end = at;
      break;
    }
  }
  require(fault.empty() || layout.pixels != 0, Errc::corrupt_file, place,
          "not a readable PNG: " + fault, hint);
  layout.fault = std::move(fault);
  return layout;
}

}  // namespace troupe::actors
