#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "models/text/tokenizer.h"

namespace troupe::models {

/// A tokenizer for pipelines with random weights: "clip", with the marks of
/// CLIP (49406 and 49407), or "t5" (pad 0, end 1, unknown 2). They know some
/// 2,000 pieces, English ones for the most part, and no ids of the real ones
/// but these. Other names: Errc::not_found.
[[nodiscard]] std::unique_ptr<const Tokenizer> open_bundled_tokenizer(
    std::string_view name);

/// A file of models/text/bundled.
struct BundledFile {
  std::string_view path;  ///< "clip/vocab.json"
  std::string_view text;
};
/// All bundled files. The texts are compiled into the program.
[[nodiscard]] std::span<const BundledFile> bundled_tokenizer_files();

}  // namespace troupe::models
