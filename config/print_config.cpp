#include "config/print_config.h"

#include <algorithm>
#include <string_view>

#include "config/parse_value.h"

namespace troupe::config {
namespace {

/// Where the comments begin, if the value leaves room.
constexpr std::size_t kCommentColumn = 32;

/// TOML basic string.
std::string quoted_text(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// Whether TOML gives back exactly these characters of a number.
bool is_whole(std::string_view text) {
  std::int64_t value = 0;
  return read_number(text, value) && std::to_string(value) == text;
}
bool is_real(std::string_view text) {
  double value = 0;
  return read_number(text, value) && to_text(value) == text &&
         text.find_first_of("in") == std::string_view::npos;  // inf, nan
}

std::string real(std::string_view text) {
  return std::string(text) + (is_whole(text) ? ".0" : "");
}

std::string list(std::string_view text) {
  std::string items;
  for (const std::string& item : parse_list("list", text)) {
    items += items.empty() ? "" : ", ";
    items += is_whole(item)  ? item
             : is_real(item) ? real(item)
                             : quoted_text(item);
  }
  return "[" + items + "]";
}

std::string texts(const std::vector<std::string>& items) {
  std::string quoted;
  for (const std::string& item : items) {
    quoted += (quoted.empty() ? "" : ", ") + quoted_text(item);
  }
  return items.size() == 1 ? quoted : "[" + quoted + "]";
}

std::string value_of(const Option& option, std::string_view text) {
  switch (option.kind()) {
    case ValueKind::truth:
      return std::string(text);
    case ValueKind::whole:
      return is_whole(text) ? std::string(text) : quoted_text(text);
    case ValueKind::real:
      return is_real(text) ? real(text) : quoted_text(text);
    case ValueKind::list:
      return list(text);
    case ValueKind::text:
    case ValueKind::texts:
      break;
  }
  return quoted_text(text);
}

/// "run.toml:3" of "run.toml:3 num_steps", "DIR/sampling.json" of
/// "DIR/sampling.json: guidance": the key is said already.
std::string source_of(const Option& option, std::string place) {
  const std::size_t space = place.rfind(' ');
  if (space != std::string::npos &&
      find_option(place.substr(space + 1)) == &option) {
    place.resize(space);
    if (place.ends_with(':')) {
      place.pop_back();
    }
  }
  // A name may hold anything, a comment must end with its line.
  std::ranges::replace_if(
      place, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return place;
}

std::string line(std::string text, const std::string& comment) {
  text.resize(std::max(text.size() + 2, kCommentColumn), ' ');
  return text + "# " + comment + "\n";
}

std::string line_of(const Option& option, Verb verb, const Config& config,
                    const Decided* decided) {
  const std::string key(option.key);
  const std::string remark = decided == nullptr || decided->remark.empty()
                                 ? std::string()
                                 : ": " + decided->remark;
  const bool is_several = option.kind() == ValueKind::texts;
  const std::string text = option.get(config);
  if (is_several ? !(config.*option.field.texts).empty() : !text.empty()) {
    const auto place = config.places.find(key);
    return line(
        key + " = " +
            (is_several ? texts(config.*option.field.texts)
                        : value_of(option, text)),
        (place == config.places.end() ? "default"
                                      : source_of(option, place->second.text)) +
            remark);
  }
  if (decided != nullptr && !decided->text.empty()) {
    return line(std::string(decided->repeats ? "" : "# ") + key + " = " +
                    value_of(option, decided->text),
                source_of(option, decided->source) + remark);
  }
  return line("# " + key,
              "not set: " + std::string(option.unset.of(verb)) + remark);
}

}  // namespace

std::string to_toml(Verb verb, const Config& config,
                    const Decisions& decisions) {
  std::string text;
  for (const Option& option : option_table()) {
    if (option.serves(verb) && option.has_text()) {
      const auto decided = decisions.find(option.key);
      text += line_of(option, verb, config,
                      decided == decisions.end() ? nullptr : &decided->second);
    }
  }
  return text;
}

}  // namespace troupe::config
