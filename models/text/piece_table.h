#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// Largest number of pieces, and bytes of the longest one, that a file may
/// have. (UMT5 has 256,300 pieces; the longest of CLIP has 64 bytes.)
inline constexpr std::size_t kMostPieces = std::size_t{1} << 20U;
inline constexpr std::size_t kLongestPiece = 1024;

/// The pieces of a vocabulary by text and by prefix. Texts lie end to end, and
/// a sorted list of their numbers serves as the trie: 8 bytes a piece beside
/// its text. Thread: any once it is sorted.
class PieceTable {
 public:
  /// Gives the piece the next number.
  /// Errors: Errc::corrupt_file at `place` for too many or too long ones.
  void add(std::string_view piece, std::string_view place);
  /// Before the first search, after the last `add`.
  void sort();

  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t number) const {
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(texts_).substr(begin, ends_[number] - begin);
  }
  /// Number of the piece; of equal ones the last.
  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view text) const;

  /// Calls fn(number, bytes) for every piece that `text` begins with, shortest
  /// first; of equal ones for the last. Empty pieces are left out.
  template <typename Fn>
  void each_prefix(std::string_view text, const Fn& fn) const {
    Range range{0, sorted_.size()};
    for (std::size_t depth = 0; depth < text.size(); ++depth) {
      range = narrowed(range, depth, static_cast<unsigned char>(text[depth]));
      if (range.begin == range.end) {
        return;
      }
      const std::uint32_t first = sorted_[range.begin];
      if ((*this)[first].size() == depth + 1) {
        fn(first, depth + 1);
      }
    }
  }

 private:
  /// Pieces with a common prefix: a part of sorted_.
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  [[nodiscard]] Range narrowed(Range range, std::size_t depth,
                               unsigned char byte) const;

  std::string texts_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t>
      sorted_;  ///< numbers by text; of equal ones the last
  std::vector<std::uint32_t> first_bytes_;  ///< 257 places in sorted_
};

}  // namespace troupe::models
