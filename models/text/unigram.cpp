#include "models/text/unigram.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/core/text.h"
#include "models/text/corrupt.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

constexpr std::string_view kWordMark = "\u2581";
/// An unknown character scores so much less than the worst piece.
constexpr double kUnknownPenalty = 10.0;

class Unigram final : public WordModel {
 public:
  Unigram(Vocabulary vocabulary, std::int32_t unknown)
      : pieces_(std::move(vocabulary.pieces)),
        scores_(std::move(vocabulary.scores)),
        charsmap_(std::move(vocabulary.charsmap)),
        unknown_(unknown),
        unknown_score_(*std::min_element(scores_.begin(), scores_.end()) -
                       kUnknownPenalty) {}

  [[nodiscard]] std::string normalized(std::string_view text) const override {
    return charsmap_.apply(text);
  }
  void tokenize(std::string_view text, TokenList& to) const override;
  [[nodiscard]] std::optional<std::int32_t> find(
      std::string_view piece) const override {
    const auto found = pieces_.find(piece);
    return found ? std::optional(static_cast<std::int32_t>(*found))
                 : std::nullopt;
  }
  [[nodiscard]] std::int64_t num_pieces() const override {
    return static_cast<std::int64_t>(pieces_.size());
  }
  [[nodiscard]] std::int32_t largest_id() const override {
    return static_cast<std::int32_t>(pieces_.size()) - 1;
  }

 private:
  /// The best way to a position of a word ends with piece `id`, which begins at
  /// `begin`.
  struct Step {
    double score = 0.0;
    std::int32_t id = 0;
    std::int32_t begin = -1;  ///< -1: no way leads here
  };

  void tokenize_spaceless(std::string_view text, TokenList& to) const;
  /// `word` begins with the mark and holds no other.
  void tokenize_word(std::string_view word, TokenList& to) const;
  [[nodiscard]] std::vector<Step> best_steps(std::string_view word) const;
  void add(std::int32_t id, std::string_view piece, TokenList& to) const;

  PieceTable pieces_;
  std::vector<double> scores_;
  Charsmap charsmap_;
  std::int32_t unknown_;
  double unknown_score_;
};

void Unigram::tokenize(std::string_view text, TokenList& to) const {
  std::size_t begin = 0;
  std::size_t at = 0;
  const auto end_word = [&] {
    if (at > begin) {
      tokenize_spaceless(text.substr(begin, at - begin), to);
    }
  };
  while (at < text.size()) {
    const Utf8Character next = first_character(text.substr(at));
    if (is_white_space(next.code)) {
      end_word();
      begin = at + next.size;
    }
    at += next.size;
  }
  end_word();
}

void Unigram::tokenize_spaceless(std::string_view text, TokenList& to) const {
  // A mark that was typed begins a piece of its own.
  const std::string marked = text.starts_with(kWordMark)
                                 ? std::string(text)
                                 : std::string(kWordMark).append(text);
  for (std::size_t begin = 0; begin < marked.size();) {
    const std::size_t end = std::min(
        marked.find(kWordMark, begin + kWordMark.size()), marked.size());
    tokenize_word(std::string_view(marked).substr(begin, end - begin), to);
    begin = end;
  }
}

std::vector<Unigram::Step> Unigram::best_steps(std::string_view word) const {
  std::vector<Step> steps(word.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t id,
                         double score) {
    const double sum = score + steps[begin].score;
    Step& step = steps[end];
    if (step.begin < 0 || sum > step.score) {
      step = {sum, id, static_cast<std::int32_t>(begin)};
    }
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t character = first_character(word.substr(at)).size;
    bool has_character = false;
    pieces_.each_prefix(word.substr(at), [&](std::uint32_t number,
                                             std::size_t size) {
      offer(at, at + size, static_cast<std::int32_t>(number), scores_[number]);
      has_character = has_character || size == character;
    });
    if (!has_character) {
      offer(at, at + character, unknown_, unknown_score_);
    }
    at += character;
  }
  return steps;
}

void Unigram::tokenize_word(std::string_view word, TokenList& to) const {
  const std::vector<Step> steps = best_steps(word);
  struct Part {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };
  std::vector<Part> parts;  // from the last to the first
  for (std::size_t end = word.size(); end > 0;) {
    const Step& step = steps[end];
    const auto begin = static_cast<std::size_t>(step.begin);
    if (!parts.empty() && step.id == unknown_ && parts.back().id == unknown_) {
      parts.back().begin = begin;  // unknown characters in a row are one
    } else {
      parts.push_back({begin, end, step.id});
    }
    end = begin;
  }
  std::for_each(parts.rbegin(), parts.rend(), [&](const Part& part) {
    add(part.id, word.substr(part.begin, part.end - part.begin), to);
  });
}

void Unigram::add(std::int32_t id, std::string_view piece,
                  TokenList& to) const {
  if (id == unknown_) {
    // Unknown characters in a row may be a piece of the vocabulary together.
    id = find(piece).value_or(unknown_);
  }
  const bool is_marked = piece.starts_with(kWordMark);
  to.add(id, is_marked ? " " : "");
  to.extend(is_marked ? piece.substr(kWordMark.size()) : piece);
}

}  // namespace

std::unique_ptr<const WordModel> make_unigram(Vocabulary vocabulary,
                                              std::string_view place) {
  const auto count = static_cast<std::int64_t>(vocabulary.pieces.size());
  const std::int64_t unknown = vocabulary.unknown_id.value_or(-1);
  if (unknown < 0 || unknown >= count) {
    corrupt(place, "the id of the unknown piece: got " +
                       std::to_string(unknown) + ", expected one of " +
                       std::to_string(count) + " pieces");
  }
  if (vocabulary.scores.size() != vocabulary.pieces.size()) {
    corrupt(place,
            "a vocabulary without scores: expected a list of pieces and "
            "scores");
  }
  for (const double score : vocabulary.scores) {
    // Sums over a text of any length stay finite, too.
    if (!(std::abs(score) <= 1e30)) {
      corrupt(place, "the score of a piece is not a finite number");
    }
  }
  return std::make_unique<Unigram>(std::move(vocabulary),
                                   static_cast<std::int32_t>(unknown));
}

}  // namespace troupe::models
