#include "models/text/piece_table.h"

#include <algorithm>
#include <numeric>

#include "models/text/corrupt.h"

namespace troupe::models {

void PieceTable::add(std::string_view piece, std::string_view place) {
  if (piece.size() > kLongestPiece) {
    corrupt(place, "a piece is too long: got " + std::to_string(piece.size()) +
                       " bytes, expected at most " +
                       std::to_string(kLongestPiece));
  }
  if (ends_.size() == kMostPieces) {
    corrupt(place,
            "too many pieces: expected at most " + std::to_string(kMostPieces));
  }
  texts_ += piece;
  ends_.push_back(static_cast<std::uint32_t>(texts_.size()));
}

void PieceTable::sort() {
  const PieceTable& table = *this;
  sorted_.resize(size());
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  std::sort(sorted_.begin(), sorted_.end(),
            [&](std::uint32_t a, std::uint32_t b) {
              const int order = table[a].compare(table[b]);
              return order != 0 ? order < 0 : a > b;
            });
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end(),
                            [&](std::uint32_t a, std::uint32_t b) {
                              return table[a] == table[b];
                            }),
                sorted_.end());
  first_bytes_.assign(257, 0);
  std::size_t at = 0;
  for (unsigned byte = 0; byte <= 256; ++byte) {
    while (at < sorted_.size() &&
           (table[sorted_[at]].empty() ||
            static_cast<unsigned char>(table[sorted_[at]][0]) < byte)) {
      ++at;
    }
    first_bytes_[byte] = static_cast<std::uint32_t>(at);
  }
}

std::optional<std::uint32_t> PieceTable::find(std::string_view text) const {
  const auto found =
      std::lower_bound(sorted_.begin(), sorted_.end(), text,
                       [&](std::uint32_t number, std::string_view wanted) {
                         return (*this)[number] < wanted;
                       });
  if (found == sorted_.end() || (*this)[*found] != text) {
    return std::nullopt;
  }
  return *found;
}

PieceTable::Range PieceTable::narrowed(Range range, std::size_t depth,
                                       unsigned char byte) const {
  if (depth == 0) {
    return {first_bytes_[byte], first_bytes_[byte + 1U]};
  }
  // A piece that ends here sorts before longer pieces: as byte -1.
  const auto byte_of = [&](std::uint32_t number) {
    const std::string_view piece = (*this)[number];
    return depth < piece.size() ? static_cast<unsigned char>(piece[depth]) : -1;
  };
  const auto begin = sorted_.begin();
  const auto first = begin + static_cast<std::ptrdiff_t>(range.begin);
  const auto last = begin + static_cast<std::ptrdiff_t>(range.end);
  const auto from =
      std::partition_point(first, last, [&](std::uint32_t number) {
        return byte_of(number) < static_cast<int>(byte);
      });
  const auto to = std::partition_point(from, last, [&](std::uint32_t number) {
    return byte_of(number) == static_cast<int>(byte);
  });
  return {static_cast<std::size_t>(from - begin),
          static_cast<std::size_t>(to - begin)};
}

}  // namespace troupe::models
