#pragma once

#include <memory>
#include <string_view>

#include "models/text/vocabulary.h"
#include "models/text/word_model.h"

namespace troupe::models {

/// T5's tokenizer: words at white space, each after "▁" (U+2581), cut into the
/// pieces with the best sum of scores.
/// Source: transformers 5, models/t5/tokenization_t5.py; tokenizers,
/// models/unigram/model.rs, pre_tokenizers/metaspace.rs.
/// Errors: Errc::corrupt_file at `place` for a vocabulary without an unknown
/// piece, or with a score that is not finite.
[[nodiscard]] std::unique_ptr<const WordModel> make_unigram(
    Vocabulary vocabulary, std::string_view place);

}  // namespace troupe::models
