#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "models/text/tokenizer_files.h"
#include "models/text/word_model.h"

namespace troupe::models {

/// A kind of tokenizer: one row of the table.
struct TokenizerKind {
  std::string_view name;     ///< for messages
  std::string_view classes;  ///< of transformers, separated by spaces
  // Accepted contents of tokenizer.json, as outlines of TokenizerJson. With
  // every accepted outline the pipeline is that of the class.
  std::string_view model_type;
  std::string_view word_end;
  std::span<const std::string_view> normalizers;
  std::span<const std::string_view> pre_tokenizers;
  /// The files that serve where there is no tokenizer.json.
  std::span<const std::string_view> files;
  Vocabulary (*read)(const TokenizerFiles& files);
  /// Adds the class's own tokens to the files' list; `from_json`: the
  /// vocabulary is that of tokenizer.json. Errors: Errc::corrupt_file.
  void (*complete)(Vocabulary& vocabulary, TokenizerSettings& settings,
                   bool from_json, std::string_view place);
  std::unique_ptr<const WordModel> (*make)(Vocabulary vocabulary,
                                           std::string_view place);
  // Named tokens where the files do not say. An empty begin: there is no mark.
  std::string_view begin;
  std::string_view end;
  std::string_view unknown;
  std::string_view pad;
};

[[nodiscard]] std::span<const TokenizerKind> tokenizer_kinds();

}  // namespace troupe::models
