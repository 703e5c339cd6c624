#include "config/python_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/core/key_walk.h"

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

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

/// Behind the quotation mark that ends the string at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    at += text[at] == '\\' ? 1U : 0U;
  }
  return std::min(at + 1, text.size());
}

/// Where the value at `at` ends: at the ',' or '}' of the object around it.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at);
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (depth == 0 && (closes || c == ',')) {
      return at;
    }
    depth += c == '{' || c == '[' ? 1 : closes ? -1 : 0;
    ++at;
  }
  return at;
}

/// What a string says; one with an escape is left to the parser.
std::string unquoted(std::string_view text) {
  if (text.find('\\') == std::string_view::npos) {
    return std::string(
        text.substr(1, text.size() - std::min<std::size_t>(text.size(), 2)));
  }
  const auto value = nlohmann::json::parse(text, nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

bool check_objects(std::string_view text, std::string_view place, Errc code) {
  return check_keys<nlohmann::json_sax, nlohmann::json>(text, place, code);
}

std::vector<Member> members_of(std::string_view text) {
  std::vector<Member> members;
  std::size_t at = skip_space(text, text.starts_with(kByteOrderMark) ? 3 : 0);
  if (at == text.size() || text[at] != '{') {
    return members;
  }
  at = skip_space(text, at + 1);
  while (at < text.size() && text[at] == '"') {
    const std::size_t key_end = end_of_string(text, at);
    const std::size_t colon = skip_space(text, key_end);
    if (colon == text.size() || text[colon] != ':') {
      break;
    }
    const std::size_t begin = skip_space(text, colon + 1);
    const std::size_t end = end_of_value(text, begin);
    members.push_back({unquoted(text.substr(at, key_end - at)),
                       trimmed(text.substr(begin, end - begin))});
    at = skip_space(text, end);
    if (at == text.size() || text[at] != ',') {
      break;
    }
    at = skip_space(text, at + 1);
  }
  return members;
}

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
