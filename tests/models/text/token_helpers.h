#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "models/text/tokenizer.h"
#include "models/text/tokenizer_files.h"
#include "tests/models/helpers.h"

namespace troupe::models {

/// The files of a folder of tests/golden.
inline TokenizerFiles golden_tokenizer(std::string_view name) {
  return read_tokenizer_files(std::filesystem::path(TROUPE_GOLDEN_DIR) / name);
}

/// `text` with the first `from` replaced by `to`.
inline std::string with(std::string text, std::string_view from,
                        std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The error of a tokenizer whose file `name` is changed so.
inline Error error_with(TokenizerFiles files, const std::string& name,
                        std::string_view from, std::string_view to) {
  files.texts[name] = with(files.texts[name], from, to);
  return error_of([&] { (void)make_tokenizer(files); });
}

}  // namespace troupe::models
