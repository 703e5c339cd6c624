#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// Token ids of a text, with the part of the text that each id stands for.
class TokenList {
 public:
  struct Token {
    std::int32_t id;
    std::uint32_t end;  ///< in text(): its part ends here
  };

  void add(std::int32_t id, std::string_view says) {
    text_ += says;
    tokens_.push_back({id, static_cast<std::uint32_t>(text_.size())});
  }
  /// More of what the last token says. There is one.
  void extend(std::string_view says) {
    text_ += says;
    tokens_.back().end = static_cast<std::uint32_t>(text_.size());
  }
  [[nodiscard]] const std::vector<Token>& tokens() const { return tokens_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::vector<Token> tokens_;
  std::string text_;
};

/// What differs between kinds of tokenizers: how text is normalised, and how a
/// normalised text is cut into pieces of the vocabulary. Thread: any.
class WordModel {
 public:
  virtual ~WordModel() = default;

  /// UTF-8 to UTF-8.
  [[nodiscard]] virtual std::string normalized(std::string_view text) const = 0;
  /// Appends the tokens of a text that normalized() returned, or a part of one.
  virtual void tokenize(std::string_view normalized, TokenList& to) const = 0;

  /// Id of a piece of the vocabulary.
  [[nodiscard]] virtual std::optional<std::int32_t> find(
      std::string_view piece) const = 0;
  /// Number of pieces: the first added token gets this number as its id.
  [[nodiscard]] virtual std::int64_t num_pieces() const = 0;
  [[nodiscard]] virtual std::int32_t largest_id() const = 0;
};

}  // namespace troupe::models
