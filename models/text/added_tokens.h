#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/vocabulary.h"
#include "models/text/word_model.h"

namespace troupe::models {

/// Finds tokens that were typed in a text: from the left, the longest at each
/// place. Tokens for the raw text are found first; then the rest of the text is
/// normalised and the other tokens are found.
/// Source: tokenizers, tokenizer/added_vocabulary.rs. Thread: any.
class AddedTokens {
 public:
  /// A token in the model's vocabulary has the id of the vocabulary; other
  /// tokens get the next free ids. Of equal contents the last counts. Errors:
  /// Errc::corrupt_file at `place` for too many or too long ones.
  AddedTokens(const std::vector<AddedToken>& tokens, const WordModel& model,
              std::string_view place);

  /// Appends the tokens of a text, typed ones and the model's.
  void tokenize(std::string_view text, const WordModel& model,
                TokenList& to) const;
  [[nodiscard]] std::optional<std::int32_t> find(
      std::string_view content) const;
  /// `text` with each of its tokens that has more than one vector (<toy>,
  /// <toy>_1, …) replaced by the names of all its vectors, with spaces between.
  /// A token is replaced only where the text has it as it was added.
  /// Source: diffusers loaders/textual_inversion.py. Errors:
  /// Errc::invalid_argument for a result above `most` bytes.
  [[nodiscard]] std::string with_all_vectors(std::string text,
                                             const WordModel& model,
                                             std::size_t most) const;
  [[nodiscard]] std::int32_t largest_id() const noexcept { return largest_; }
  /// A token that no text finds, and the other token that is found in its
  /// place: they are equal once they are normalised.
  struct Hidden {
    std::string content;
    std::string found;
  };
  /// The first such token, and how many there are.
  [[nodiscard]] const std::optional<Hidden>& hidden() const noexcept {
    return hidden_;
  }
  [[nodiscard]] std::size_t num_hidden() const noexcept { return num_hidden_; }

 private:
  struct Entry {
    AddedToken token;
    std::int32_t id;
  };
  /// Some of the entries, found by what is looked for.
  struct Patterns {
    PieceTable texts;
    std::vector<std::size_t> entries;  ///< of each text
  };

  /// Calls on_text(part) and on_token(entry, part) from the left.
  template <typename OnText, typename OnToken>
  void split(std::string_view text, const Patterns& patterns,
             const OnText& on_text, const OnToken& on_token) const;

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> by_content_;
  std::vector<std::string> several_;  ///< that have more than one vector
  Patterns raw_;
  Patterns normalized_;
  std::int32_t largest_ = -1;
  std::optional<Hidden> hidden_;
  std::size_t num_hidden_ = 0;
};

}  // namespace troupe::models
