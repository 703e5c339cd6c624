#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/text/charsmap.h"
#include "models/text/piece_table.h"

namespace troupe::models {

/// Largest id that a file may give a piece.
inline constexpr std::int64_t kLargestId = (std::int64_t{1} << 24U) - 1;

/// A token that a text can contain literally, such as "<|endoftext|>".
struct AddedToken {
  std::string content;
  bool strips_left = false;    ///< takes the white space before it
  bool strips_right = false;   ///< and after it
  bool is_normalized = false;  ///< looked for in the normalised text

  bool operator==(const AddedToken&) const = default;
};

/// Added tokens by their ids.
using AddedById = std::map<std::int64_t, AddedToken>;

/// What the files of a tokenizer hold, whichever they are. A kind leaves empty
/// what it has not.
struct Vocabulary {
  PieceTable pieces;
  std::vector<std::int32_t> ids;  ///< of each piece; empty: their numbers
  std::vector<double> scores;     ///< unigram: of each piece
  /// BPE: pairs that are merged, by rank; each is two numbers of pieces.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> merges;
  std::string unknown_piece;               ///< BPE
  std::optional<std::int64_t> unknown_id;  ///< unigram
  Charsmap charsmap;                       ///< unigram
  AddedById added;                         ///< by the file itself
};

}  // namespace troupe::models
