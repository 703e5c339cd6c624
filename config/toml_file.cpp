#include "config/toml_file.h"

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "config/option_table.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"

namespace troupe::config {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

std::string place_of(const std::string& path, const toml::source_region& at,
                     std::string_view key) {
  std::string place = path + ":" + std::to_string(at.begin.line);
  return key.empty() ? place : place + " " + std::string(key);
}

/// Of one value, which is no list.
std::string text_of(const toml::node& node, const std::string& place) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* number = node.as_integer()) {
    return std::to_string(number->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return to_text(number->get());
  }
  if (const auto* truth = node.as_boolean()) {
    return truth->get() ? "true" : "false";
  }
  if (node.is_array()) {
    throw Error(Errc::corrupt_file, place,
                "a list inside a list: got two levels, expected one",
                "write one list of plain values");
  }
  throw Error(Errc::corrupt_file, place,
              "not a value of an option: got a table or a date, expected a "
              "string, number, boolean or list",
              "options are flat, without [tables]");
}

/// What a key sets, in turn: a list is one text, unless its items are.
std::vector<std::string> texts_of(const Option* option, const toml::node& node,
                                  const std::string& place) {
  const auto* array = node.as_array();
  if (array == nullptr) {
    return {text_of(node, place)};
  }
  std::vector<std::string> items;
  std::string joined;
  for (const toml::node& item : *array) {
    items.push_back(text_of(item, place));
    joined.append(joined.empty() ? "" : ",").append(items.back());
  }
  if (option != nullptr && option->kind() == ValueKind::texts) {
    return items;
  }
  return {joined};
}

void check_file(const std::string& path) {
  constexpr const char* kHint =
      "give a TOML file, as troupe sample --print-config writes it";
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  require(std::filesystem::exists(status), Errc::not_found, path,
          "no such configuration file", kHint);
  const bool is_folder = std::filesystem::is_directory(status);
  require(std::filesystem::is_regular_file(status), Errc::invalid_argument,
          path,
          std::string("cannot read options from here: got ") +
              (is_folder ? "a folder" : "a device or a pipe") +
              ", expected a regular file",
          kHint);
  require(std::filesystem::file_size(path, error) <= kMaxBytes && !error,
          Errc::io, path, "too large for a configuration file: over 1 MiB",
          kHint);
}

/// Behind the string that begins at `at`, of one line or of several.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string several(3, quote);
  const bool is_long = text.substr(at).starts_with(several);
  at += is_long ? several.size() : 1;
  while (at < text.size()) {
    if (is_long ? text.substr(at).starts_with(several)
                : text[at] == quote || text[at] == '\n') {
      return at + (is_long ? several.size() : 1);
    }
    at += text[at] == '\\' && quote == '"' ? 2 : 1;
  }
  return text.size();
}

/// Errors: always, at the line of `at`.
[[noreturn]] void refuse_depth(std::string_view text, std::size_t at,
                               const std::string& path,
                               const std::string& what) {
  const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
  throw Error(Errc::invalid_argument, path + ":" + std::to_string(line), what,
              "options are flat, without tables or lists in lists");
}

/// Refuses keys with many dots, and lists and tables in braces that are nested
/// too deep. The parser calls itself for each dot and each level, so thousands
/// of levels would overflow the stack.
void check_depth(std::string_view text, const std::string& path) {
  constexpr int kMost = 8;
  int dots = 0;
  int levels = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(text, at);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.' && ++dots > kMost) {
      refuse_depth(text, at, path,
                   "a key with more than " + std::to_string(kMost) + " dots");
    }
    if ((c == '[' || c == '{') && ++levels > kMost) {
      refuse_depth(text, at, path,
                   "lists or tables are nested too deep: got more than " +
                       std::to_string(kMost) + " levels, expected one");
    }
    levels -= (c == ']' || c == '}') && levels > 0 ? 1 : 0;
    const bool goes_on = c == '.' || c == '_' || c == '-' || c == ' ' ||
                         c == '\t' ||
                         std::isalnum(static_cast<unsigned char>(c)) != 0;
    dots = goes_on ? dots : 0;
    ++at;
  }
}

}  // namespace

std::vector<Setting> read_toml(const std::string& path) {
  check_file(path);
  const std::string content = read_file(path, kMaxBytes);
  check_depth(content, path);
  toml::table table;
  try {
    table = toml::parse(content, path);
  } catch (const toml::parse_error& problem) {
    throw Error(Errc::corrupt_file, place_of(path, problem.source(), {}),
                "not TOML: " + std::string(problem.description()),
                "correct this line");
  }
  std::vector<Setting> settings;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string place = place_of(path, node.source(), name);
    for (std::string& text : texts_of(find_option(name), node, place)) {
      settings.push_back({place, name, std::move(text)});
    }
  }
  return settings;
}

}  // namespace troupe::config
