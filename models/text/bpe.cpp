#include "models/text/bpe.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "kernels/core/text.h"
#include "models/text/corrupt.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

/// The character that stands for a byte in the vocabulary: itself where it can
/// be printed, otherwise the next one from U+0100 on.
std::array<std::string, 256> byte_characters() {
  std::array<std::string, 256> characters;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 33 && byte <= 126) ||
                              (byte >= 161 && byte <= 172) || byte >= 174;
    append_utf8(is_printable ? byte : next++, characters[byte]);
  }
  return characters;
}

/// Two ids side by side, and what they give.
struct Merge {
  std::uint64_t pair = 0;
  std::uint32_t rank = 0;
  std::int32_t id = 0;
};

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U |
         static_cast<std::uint32_t>(right);
}

/// Sorted by pair. Of equal pairs the last one counts.
std::vector<Merge> merges_of(const Vocabulary& vocabulary,
                             std::string_view place) {
  const PieceTable& pieces = vocabulary.pieces;
  std::vector<Merge> merges;
  merges.reserve(vocabulary.merges.size());
  std::string joined;
  for (const auto& [left, right] : vocabulary.merges) {
    joined.assign(pieces[left]).append(pieces[right]);
    const auto number = pieces.find(joined);
    if (!number) {
      corrupt(place, "merge " + std::to_string(merges.size()) + " gives " +
                         in_quotes(joined) +
                         ", which is not in the vocabulary");
    }
    merges.push_back({pair_of(vocabulary.ids[left], vocabulary.ids[right]),
                      static_cast<std::uint32_t>(merges.size()),
                      vocabulary.ids[*number]});
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tie(a.pair, b.rank) < std::tie(b.pair, a.rank);
  });
  merges.erase(std::unique(merges.begin(), merges.end(),
                           [](const Merge& a, const Merge& b) {
                             return a.pair == b.pair;
                           }),
               merges.end());
  return merges;
}

/// Bytes of the contraction that `text`, which begins with an apostrophe,
/// begins with; 0: of none.
std::size_t contraction_size(std::string_view text) {
  for (const std::string_view ending :
       {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) {
      return ending.size();
    }
  }
  return 0;
}

/// Bytes of the mark of a text's ends that `text` begins with; 0: of none. It
/// is typed but no token (in capitals, say): three words, and the last does not
/// reach beyond it.
std::size_t mark_size(std::string_view text) {
  for (const std::string_view mark : {"<|startoftext|>", "<|endoftext|>"}) {
    if (text.starts_with(mark)) {
      return mark.size();
    }
  }
  return 0;
}

/// Bytes of the word that `text` begins with. No white space comes first.
std::size_t word_size(std::string_view text) {
  if (const std::size_t size = contraction_size(text); size > 0) {
    return size;
  }
  const Utf8Character first = first_character(text);
  const CharacterKind kind = kind_of(first.code);
  std::size_t size = first.size;
  while (kind != CharacterKind::number && size < text.size()) {
    const Utf8Character next = first_character(text.substr(size));
    if (kind_of(next.code) != kind) {
      break;
    }
    size += next.size;
  }
  return size;
}

class ClipBpe final : public WordModel {
 public:
  ClipBpe(Vocabulary vocabulary, std::string_view place);

  /// NFC; each run of white space becomes a space; lower case.
  [[nodiscard]] std::string normalized(std::string_view text) const override;
  void tokenize(std::string_view text, TokenList& to) const override;
  [[nodiscard]] std::optional<std::int32_t> find(
      std::string_view piece) const override {
    const auto found = pieces_.find(piece);
    return found ? std::optional(ids_[*found]) : std::nullopt;
  }
  [[nodiscard]] std::int64_t num_pieces() const override {
    return static_cast<std::int64_t>(pieces_.size());
  }
  [[nodiscard]] std::int32_t largest_id() const override {
    return *std::max_element(ids_.begin(), ids_.end());
  }

 private:
  /// A piece of a word that is being merged: symbols are a list.
  struct Symbol {
    std::int32_t id;
    std::uint32_t size;  ///< bytes of the word; 0: merged into the one before
    std::uint32_t before;
    std::uint32_t after;
  };
  /// A merge that was possible when it was found. Lowest rank first, then the
  /// leftmost.
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;
    std::int32_t id;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>,
                                    std::greater<Candidate>>;

  void tokenize_word(std::string_view word, TokenList& to) const;
  [[nodiscard]] std::vector<Symbol> symbols_of(std::string_view word) const;
  /// Takes n log n steps for n symbols: each merge adds two candidates at most.
  void merge(std::vector<Symbol>& symbols) const;
  void offer(const std::vector<Symbol>& symbols, std::uint32_t at,
             Queue& queue) const;
  [[nodiscard]] const Merge* find_merge(std::int32_t left,
                                        std::int32_t right) const;

  PieceTable pieces_;
  std::vector<std::int32_t> ids_;
  std::vector<Merge> merges_;
  /// Ids of a byte inside a word, and of one at its end.
  std::array<std::int32_t, 256> inner_{};
  std::array<std::int32_t, 256> last_{};
};

ClipBpe::ClipBpe(Vocabulary vocabulary, std::string_view place)
    : merges_(merges_of(vocabulary, place)) {
  pieces_ = std::move(vocabulary.pieces);
  ids_ = std::move(vocabulary.ids);
  const auto unknown = find(vocabulary.unknown_piece);
  const auto characters = byte_characters();
  const auto id_of = [&](const std::string& piece) {
    const auto id = find(piece);
    if (!id && !unknown) {
      corrupt(place, "neither " + in_quotes(piece) + " nor the unknown piece " +
                         in_quotes(vocabulary.unknown_piece) +
                         " is in the vocabulary");
    }
    return id ? *id : *unknown;
  };
  for (unsigned byte = 0; byte < 256; ++byte) {
    inner_[byte] = id_of(characters[byte]);
    last_[byte] = id_of(characters[byte] + std::string(kWordEnd));
  }
}

std::string ClipBpe::normalized(std::string_view text) const {
  const std::string whole = composed(text);
  std::string result;
  result.reserve(whole.size());
  bool follows_space = false;
  for (std::size_t at = 0; at < whole.size();) {
    const Utf8Character next =
        first_character(std::string_view(whole).substr(at));
    const bool is_space = is_white_space(next.code);
    if (!is_space) {
      append_lowered(next.code, result);
    } else if (!follows_space) {
      result += ' ';
    }
    follows_space = is_space;
    at += next.size;
  }
  return result;
}

void ClipBpe::tokenize(std::string_view text, TokenList& to) const {
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    if (is_white_space(next.code)) {
      text.remove_prefix(next.size);
      continue;
    }
    if (const std::size_t size = mark_size(text); size > 0) {
      tokenize_word(text.substr(0, 2), to);
      tokenize_word(text.substr(2, size - 4), to);
      tokenize_word(text.substr(size - 2, 2), to);
      text.remove_prefix(size);
      continue;
    }
    const std::size_t size = word_size(text);
    tokenize_word(text.substr(0, size), to);
    text.remove_prefix(size);
  }
}

std::vector<ClipBpe::Symbol> ClipBpe::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols(word.size());
  for (std::uint32_t i = 0; i < symbols.size(); ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    const bool is_last = i + 1 == symbols.size();
    symbols[i] = {is_last ? last_[byte] : inner_[byte], 1, i - 1, i + 1};
  }
  return symbols;
}

const Merge* ClipBpe::find_merge(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  const auto found = std::ranges::lower_bound(merges_, pair, {}, &Merge::pair);
  return found == merges_.end() || found->pair != pair ? nullptr : &*found;
}

void ClipBpe::offer(const std::vector<Symbol>& symbols, std::uint32_t at,
                    Queue& queue) const {
  const std::uint32_t after = symbols[at].after;
  if (after >= symbols.size()) {
    return;
  }
  if (const Merge* merge = find_merge(symbols[at].id, symbols[after].id)) {
    queue.push({merge->rank, at, merge->id});
  }
}

void ClipBpe::merge(std::vector<Symbol>& symbols) const {
  Queue queue;
  for (std::uint32_t i = 0; i < symbols.size(); ++i) {
    offer(symbols, i, queue);
  }
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.at];
    if (left.size == 0 || left.after >= symbols.size()) {
      continue;
    }
    Symbol& right = symbols[left.after];
    const Merge* still = find_merge(left.id, right.id);
    if (still == nullptr || still->id != top.id) {
      continue;
    }
    left.id = top.id;
    left.size += right.size;
    left.after = right.after;
    right.size = 0;
    if (left.after < symbols.size()) {
      symbols[left.after].before = top.at;
    }
    if (left.before < symbols.size()) {
      offer(symbols, left.before, queue);
    }
    offer(symbols, top.at, queue);
  }
}

void ClipBpe::tokenize_word(std::string_view word, TokenList& to) const {
  std::vector<Symbol> symbols = symbols_of(word);
  merge(symbols);
  std::size_t at = 0;
  for (const Symbol& symbol : symbols) {
    if (symbol.size > 0) {
      to.add(symbol.id, word.substr(at, symbol.size));
      at += symbol.size;
    }
  }
  to.extend(" ");
}

}  // namespace

std::unique_ptr<const WordModel> make_clip_bpe(Vocabulary vocabulary,
                                               std::string_view place) {
  if (vocabulary.ids.empty() ||
      vocabulary.ids.size() != vocabulary.pieces.size()) {
    corrupt(place,
            "a vocabulary without ids: expected an object of pieces and ids");
  }
  return std::make_unique<ClipBpe>(std::move(vocabulary), place);
}

}  // namespace troupe::models
