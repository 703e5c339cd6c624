#include "config/python_json.h"

namespace troupe::config {
namespace {

std::size_t bare_word_length(std::string_view text) {
  for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
    if (text.starts_with(word)) {
      return word.size();
    }
  }
  return 0;
}

}  // namespace

std::string without_bare_words(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string && c == '\\' && i + 1 < text.size()) {
      clean += c;
      ++i;
    } else if (!in_string) {
      if (const std::size_t length = bare_word_length(text.substr(i))) {
        clean.append("\"").append(text.substr(i, length)).append("\"");
        i += length - 1;
        continue;
      }
    }
    clean += text[i];
  }
  return clean;
}

}  // namespace troupe::config
