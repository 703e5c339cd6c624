#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe::actors {

/// The bytes of a PNG, wherever they lie.
class PngBytes {
 public:
  PngBytes() = default;
  virtual ~PngBytes() = default;
  PngBytes(const PngBytes&) = delete;
  PngBytes& operator=(const PngBytes&) = delete;

  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Fills `out` from byte `at` on; false where the bytes end before that.
  [[nodiscard]] virtual bool read(std::uint64_t at,
                                  std::span<std::byte> out) const = 0;
};

/// Bytes in memory, which must outlive the object.
class PngInMemory : public PngBytes {
 public:
  explicit PngInMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] bool read(std::uint64_t at,
                          std::span<std::byte> out) const override;

 private:
  std::span<const std::byte> bytes_;
};

/// An ordinary file, of which only what is asked for is read.
/// Errors of the constructor: those of open_regular_file.
class PngFile : public PngBytes {
 public:
  explicit PngFile(const std::filesystem::path& path);
  ~PngFile() override;
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] bool read(std::uint64_t at,
                          std::span<std::byte> out) const override;

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Bytes [begin, end) of a file.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// A chunk and where it lies.
struct PngChunk {
  static constexpr std::uint64_t kHead = 8;   ///< length and name
  static constexpr std::uint64_t kCheck = 4;  ///< the checksum behind it

  std::uint64_t begin = 0;
  std::uint64_t length = 0;  ///< of its content
  std::string name;
  [[nodiscard]] std::uint64_t content() const { return begin + kHead; }
  [[nodiscard]] std::uint64_t end() const {
    return content() + length + kCheck;
  }
};

/// The chunk at byte `begin`; its length is held against the file. What is
/// wrong with it goes to `fault`, which stays empty for a chunk that is whole.
[[nodiscard]] PngChunk png_chunk_at(const PngBytes& bytes, std::uint64_t begin,
                                    std::string& fault);

/// Where the chunks of a PNG lie.
struct PngLayout {
  std::uint64_t pixels = 0;  ///< where the first IDAT chunk begins; 0: none
  /// Chunks that are not needed for the pixels and too large to be held: a
  /// reader passes over them.
  std::vector<ByteRange> too_large;
  std::uint64_t end = 0;  ///< behind the end chunk; more bytes may follow
  /// What is wrong from the first IDAT chunk on; empty: every chunk is whole.
  std::string fault;
};

/// Bytes before the first chunk.
inline constexpr std::uint64_t kPngSignatureBytes = 8;
/// More chunks make no picture: of IDAT chunks of 8 KiB, as libpng writes them,
/// that is 2 GiB.
inline constexpr int kMaxPngChunks = 1 << 18;
inline constexpr const char* kTooManyChunks = "it has too many chunks";

/// Whether the first eight bytes are a PNG's signature.
[[nodiscard]] bool is_png(const PngBytes& bytes);

/// Walks from chunk to chunk and holds every length against the file, before
/// anybody allocates what a chunk claims. Checks no content and no checksum.
/// Chunks other than IDAT hold at most `max_chunk_bytes`; larger ones go to
/// `too_large`, or are refused where a reader needs them (IHDR, PLTE, IEND).
/// A fault before the pixels is an error, one after them is told (`fault`).
/// `place` names the file, `hint` says what to do about it.
/// Errors: Errc::corrupt_file.
[[nodiscard]] PngLayout walk_png(const std::string& place, const char* hint,
                                 const PngBytes& bytes,
                                 std::uint64_t max_chunk_bytes);

}  // namespace troupe::actors
