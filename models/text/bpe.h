#pragma once

#include <memory>
#include <string_view>

#include "models/text/vocabulary.h"
#include "models/text/word_model.h"

namespace troupe::models {

/// CLIP's tokenizer: lower-case words, each cut into bytes that are merged by
/// rank; the last piece of a word ends with "</w>".
/// Source: transformers 5, models/clip/tokenization_clip.py; tokenizers,
/// models/bpe/{model,word}.rs, pre_tokenizers/byte_level.rs.
/// Errors: Errc::corrupt_file at `place` where the vocabulary lacks a byte and
/// a piece for unknown ones, or what two merged pieces give.
[[nodiscard]] std::unique_ptr<const WordModel> make_clip_bpe(
    Vocabulary vocabulary, std::string_view place);

/// The end of the last piece of a word.
inline constexpr std::string_view kWordEnd = "</w>";

}  // namespace troupe::models
