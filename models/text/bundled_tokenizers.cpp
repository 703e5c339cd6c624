#include "models/text/bundled_tokenizers.h"

#include <string>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/text/tokenizer_files.h"

namespace troupe::models {

std::unique_ptr<const Tokenizer> open_bundled_tokenizer(std::string_view name) {
  TokenizerFiles files;
  files.folder = "bundled/" + std::string(name);
  for (const auto& [path, text] : bundled_tokenizer_files()) {
    const std::size_t slash = path.find('/');
    if (path.substr(0, slash) == name) {
      files.texts.emplace(path.substr(slash + 1), text);
    }
  }
  require(!files.texts.empty(), Errc::not_found, "bundled tokenizer",
          "no tokenizer of this name: got " + in_quotes(name) +
              ", expected \"clip\" or \"t5\"");
  return make_tokenizer(files);
}

}  // namespace troupe::models
