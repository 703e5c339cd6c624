#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// A text as a text encoder reads it.
struct Tokens {
  std::vector<std::int32_t> ids;  ///< exactly max_length, padded at the end
  std::int64_t length =
      0;                 ///< ids that are the text's, with begin and end marks
  std::int64_t cut = 0;  ///< tokens of the text that did not fit
  std::string cut_text;  ///< what they say (the pieces joined), for a message
};

/// Turns text into the ids of a vocabulary, as transformers 5 does.
/// Thread: any; calls may run at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// `text` is UTF-8 of at most 1 MiB. What does not fit is cut at the end; the
  /// end mark stays. Errors: Errc::invalid_argument for text that is not UTF-8
  /// (says the byte offset) or too long, and for a `max_length` that has no
  /// room for the marks or is above 1,048,576.
  [[nodiscard]] virtual Tokens encode(std::string_view text,
                                      std::int64_t max_length) const = 0;
  /// `text` in which a word that stands for several vectors of textual
  /// inversion (<toy> with <toy>_1, <toy>_2) is all of them. Pipelines that
  /// take such words encode this text. Errors: those of encode.
  [[nodiscard]] virtual std::string with_all_vectors(
      std::string_view text) const = 0;
  /// model_max_length of tokenizer_config.json; nothing: none stated, or no
  /// limit.
  [[nodiscard]] virtual std::optional<std::int64_t> max_length() const = 0;
  /// The least max_length of encode: the marks around a text.
  [[nodiscard]] virtual std::int64_t num_marks() const = 0;
  /// Largest id + 1.
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  /// "CLIP" or "T5". It lives as long as the program.
  [[nodiscard]] virtual std::string_view kind() const = 0;
  /// What a user should know of the files, a line each.
  [[nodiscard]] virtual const std::vector<std::string>& notes() const = 0;
};

/// Opens tokenizer/, tokenizer_2/ … of a diffusers folder. It holds
/// tokenizer.json (preferred), or vocab.json and merges.txt (CLIP), or
/// spiece.model (T5), and what tokenizer_config.json, special_tokens_map.json
/// and added_tokens.json say about it.
/// Errors: Errc::not_found where a file is missing; Errc::unsupported for a
/// tokenizer of another kind, naming what was found; Errc::corrupt_file;
/// Errc::io.
[[nodiscard]] std::unique_ptr<const Tokenizer> open_tokenizer(
    const std::filesystem::path& folder);

}  // namespace troupe::models
