#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/tokenizer.h"
#include "models/text/vocabulary.h"

namespace troupe::models {

/// Largest file of a tokenizer. (tokenizer.json of UMT5 has 17 MB.)
inline constexpr std::size_t kLargestTokenizerFile = std::size_t{64} << 20U;

/// Texts of the files of a tokenizer, by name: those that are there.
struct TokenizerFiles {
  std::string folder;  ///< for messages
  std::map<std::string, std::string, std::less<>> texts;

  [[nodiscard]] bool has(std::string_view name) const {
    return texts.find(name) != texts.end();
  }
  /// Folder and name, for messages.
  [[nodiscard]] std::string place(std::string_view name) const {
    return (std::filesystem::path(folder) / name).string();
  }
};

/// Errors: Errc::not_found, Errc::io, Errc::corrupt_file for one that is too
/// large.
[[nodiscard]] TokenizerFiles read_tokenizer_files(
    const std::filesystem::path& folder);

/// open_tokenizer() of files in memory. Errors: those of open_tokenizer.
[[nodiscard]] std::unique_ptr<const Tokenizer> make_tokenizer(
    const TokenizerFiles& files);

/// The tokens with a name that transformers knows, in its order.
inline constexpr std::string_view kNamedTokens[] = {
    "bos_token", "eos_token", "unk_token", "sep_token",
    "pad_token", "cls_token", "mask_token"};

/// What tokenizer_config.json, special_tokens_map.json and added_tokens.json
/// say.
struct TokenizerSettings {
  std::string tokenizer_class;             ///< empty: not stated
  std::optional<std::int64_t> max_length;  ///< nothing: not stated, no limit
  std::int64_t extra_ids = 100;
  /// "padding_side", "truncation_side": those that are stated.
  std::vector<std::string> sides;
  /// added_tokens_decoder. Where it is there, tokenizer.json's own list,
  /// special_tokens_map.json and added_tokens.json do not count.
  bool has_added = false;
  /// Of added_tokens_decoder, or else of added_tokens.json.
  AddedById added;
  /// "bos_token", "eos_token" …
  std::map<std::string, AddedToken, std::less<>> named;
  /// extra_special_tokens, or additional_special_tokens of
  /// tokenizer_config.json.
  std::optional<std::vector<AddedToken>> extra;
  /// additional_special_tokens of special_tokens_map.json, which count where
  /// there are no extra ones.
  std::optional<std::vector<AddedToken>> additional;
};

/// Errors: Errc::unsupported: padding or cutting is not at the right, but as
/// `got` says.
[[noreturn]] void refuse_side(std::string_view place, std::string_view key,
                              std::string_view got);

/// Source: transformers 5, tokenization_utils_base.py (_from_pretrained).
/// Errors: Errc::corrupt_file; Errc::unsupported for padding or cutting at the
/// left, for tokens that stand only between words, and for
/// split_special_tokens.
[[nodiscard]] TokenizerSettings read_settings(const TokenizerFiles& files);

// Readers of the files that hold a vocabulary. Errors (all): Errc::corrupt_file
// naming the place.

/// vocab.json and merges.txt.
[[nodiscard]] Vocabulary read_vocab_and_merges(std::string_view vocab,
                                               std::string_view merges,
                                               std::string_view place);
/// spiece.model, a protobuf. Errors: Errc::unsupported for another model than
/// unigram. Source: sentencepiece, src/sentencepiece_model.proto.
[[nodiscard]] Vocabulary read_spiece_model(std::string_view bytes,
                                           std::string_view place);

/// The contents of tokenizer.json; normalizer and pre_tokenizer are texts such
/// as "Sequence[NFC, Lowercase]".
struct TokenizerJson {
  Vocabulary vocabulary;
  std::string model_type;
  std::string normalizer;
  std::string pre_tokenizer;
  std::string word_end;  ///< end_of_word_suffix
  /// "padding_side", "truncation_side": those that the file puts at the left.
  std::vector<std::string> left_sides;
};
[[nodiscard]] TokenizerJson read_tokenizer_json(std::string_view text,
                                                std::string_view place);

}  // namespace troupe::models
