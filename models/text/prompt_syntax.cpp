#include "models/text/prompt_syntax.h"

#include <algorithm>
#include <vector>

#include "kernels/core/text.h"

namespace troupe::models {
namespace {

constexpr std::string_view kNothing;
constexpr std::string_view kBlanks = " \t\r\n";
/// Bytes that are looked at around a place: the time stays linear.
constexpr std::size_t kNear = 256;

bool is_one_of(char c, std::string_view list) {
  return list.find(c) != std::string_view::npos;
}
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
/// A part of a word. So is every byte of a character outside ASCII.
bool is_word(char c) {
  return is_ascii_digit(c) || is_capital(c) || (c >= 'a' && c <= 'z') ||
         c == '_' || (static_cast<unsigned char>(c) & 0x80U) != 0;
}

/// The number that `text` begins with, such as "-1.2"; empty: none.
std::string_view number_in(std::string_view text) {
  const std::size_t sign =
      text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::size_t end =
      std::min(text.find_first_not_of("0123456789.", sign), text.size());
  const std::string_view number = text.substr(0, end);
  return std::ranges::any_of(number, is_ascii_digit) ? number : kNothing;
}

/// A bracket from `at` to its end; empty if another of its kind comes first.
std::string_view bracket_in(std::string_view text, std::size_t at) {
  const char close = text[at] == '(' ? ')' : text[at] == '[' ? ']' : '}';
  const char both[] = {text[at], close};
  const std::size_t end = text.find_first_of(std::string_view(both, 2), at + 1);
  return end != std::string_view::npos && text[end] == close
             ? text.substr(at, end + 1 - at)
             : kNothing;
}

/// "((word))", "[a|b]", "(word)1.2" and "(word)++". A bracket behind a colon is
/// a face.
std::string_view bracket_syntax(std::string_view text, std::size_t at) {
  const char open = text[at];
  if (at + 1 < text.size() && text[at + 1] == open) {
    const std::string_view inner = bracket_in(text, at + 1);
    const std::size_t end = at + 1 + inner.size();
    const bool is_face = at > 0 && is_one_of(text[at - 1], ":;=-");
    return inner.size() > 2 && end < text.size() && text[end] == inner.back() &&
                   !is_face
               ? text.substr(at, inner.size() + 2)
               : kNothing;
  }
  const std::string_view bracket = bracket_in(text, at);
  const std::string_view rest = text.substr(at + bracket.size());
  const std::string_view weight = number_in(rest);
  const bool has_meaning =
      open == '(' ? rest.starts_with("++") || rest.starts_with("--") ||
                        (!weight.empty() && is_ascii_digit(weight.front()) &&
                         weight.find('.') < weight.size() - 1)
                  : bracket.size() > 3 && is_one_of('|', bracket);
  return !bracket.empty() && has_meaning ? bracket : kNothing;
}

/// Where the blanks that `text` has at `at` end.
std::size_t behind_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kBlanks, at), text.size());
}

/// ":1.2)" or ": 0.5]" that ends the bracket `open`; not the "16:9)" of a
/// ratio, nor the ": 40)" of an age, nor a face.
std::string_view weight_syntax(std::string_view text, std::size_t at,
                               std::size_t open) {
  const std::size_t begin = behind_blanks(text, at + 1);
  const std::string_view number = number_in(text.substr(begin));
  const std::size_t end = behind_blanks(text, begin + number.size());
  const char close = text[open] == '(' ? ')' : ']';
  const char before = text[at - 1];
  const bool is_ordinary =
      number.find('.') == std::string_view::npos &&
      (begin > at + 1 || is_ascii_digit(before) || is_one_of(before, kBlanks));
  return !number.empty() && end < text.size() && text[end] == close &&
                 open + 1 < at && !is_ordinary
             ? text.substr(open, end + 1 - open)
             : kNothing;
}

/// "embedding:name".
std::string_view embedding_syntax(std::string_view text, std::size_t at) {
  constexpr std::string_view kPrefix = "embedding:";
  const std::string_view rest = text.substr(at, kNear);
  const bool is_apart = at == 0 || !is_word(text[at - 1]);
  if (!is_apart || !rest.starts_with(kPrefix)) {
    return kNothing;
  }
  const auto end = std::find_if_not(
      rest.begin() + kPrefix.size(), rest.end(),
      [](char c) { return is_word(c) || is_one_of(c, "-./\\"); });
  const std::string_view found(rest.begin(), end);
  return found.size() > kPrefix.size() ? found : kNothing;
}

/// "__name__" as a word of its own: a line of a file of that name.
std::string_view wildcard_syntax(std::string_view text, std::size_t at) {
  constexpr std::string_view kMark = "__";
  const std::string_view rest = text.substr(at, kNear);
  const bool is_apart = at == 0 || !is_word(text[at - 1]);
  if (!is_apart || !rest.starts_with(kMark)) {
    return kNothing;
  }
  const auto end = std::find_if_not(rest.begin(), rest.end(), [](char c) {
    return is_word(c) || is_one_of(c, "-/*");
  });
  const std::string_view found(rest.begin(), end);
  const bool has_name = found.size() > 2 * kMark.size() &&
                        found[kMark.size()] != '_' &&
                        found[found.size() - kMark.size() - 1] != '_';
  return has_name && found.ends_with(kMark) ? found : kNothing;
}

/// Midjourney's "--ar 16:9" or "--no text" behind a prompt; not a dash.
std::string_view parameter_syntax(std::string_view text, std::size_t at) {
  constexpr std::string_view kOfNumbers =
      "ar aspect c chaos cw exp iw niji ow q quality r repeat s seed stop "
      "stylize sv sw v version w weird";
  constexpr std::string_view kOfWords = "cref no oref sref style";
  const std::string_view rest = text.substr(at, kNear);
  if (at == 0 || !is_one_of(text[at - 1], kBlanks) || !rest.starts_with("--")) {
    return kNothing;
  }
  const std::size_t blank = rest.find_first_of(kBlanks);
  const std::string_view name =
      blank == std::string_view::npos ? kNothing : rest.substr(2, blank - 2);
  const std::size_t value = behind_blanks(rest, blank);
  const bool has_value =
      !name.empty() && value < rest.size() &&
      (has_word(kOfWords, name)
           ? is_word(rest[value])
           : has_word(kOfNumbers, name) && is_ascii_digit(rest[value]));
  return has_value ? rest.substr(0, rest.find_first_of(kBlanks, value))
                   : kNothing;
}

/// "<lora:name:0.8>".
std::string_view network_syntax(std::string_view text, std::size_t at) {
  constexpr std::string_view kKinds =
      "lora lyco locon loha hypernet hypernetwork embedding ti";
  const std::string_view rest = text.substr(at, kNear);
  const std::size_t end = rest.find('>');
  const std::size_t colon = rest.substr(0, end).find(':');
  return end != std::string_view::npos && colon != std::string_view::npos &&
                 has_word(kKinds, lowered(rest.substr(1, colon - 1)))
             ? rest.substr(0, end + 1)
             : kNothing;
}

/// "word++", and "word--" before a comma or the end: elsewhere that is a dash.
/// Names such as "C++" are ordinary. `at`: the first sign.
std::string_view sign_syntax(std::string_view text, std::size_t at) {
  constexpr std::string_view kNames = "c g j a b aa clang notepad";
  std::size_t begin = at;
  while (begin > 0 && is_word(text[begin - 1])) {
    --begin;
  }
  const std::size_t end =
      std::min(text.find_first_not_of(text[at], at), text.size());
  const std::string_view word = text.substr(begin, at - begin);
  const bool ends_here = end == text.size() || text[end] == ',' ||
                         (text[at] == '+' && !is_word(text[end]));
  return end - at > 1 && ends_here &&
                 !std::ranges::all_of(word, is_ascii_digit) &&
                 !has_word(kNames, lowered(word))
             ? text.substr(begin, end - begin)
             : kNothing;
}

/// Whether a word beside one in capitals leaves it a command: it is neither in
/// capitals, too, nor says that a word follows.
bool is_plain(std::string_view word) {
  constexpr std::string_view kSaying =
      "word words says saying reads reading text title titled called named";
  const auto capitals = std::ranges::count_if(word, is_capital);
  return (capitals < 2 || capitals < std::ranges::count_if(word, is_word)) &&
         !has_word(kSaying, lowered(word));
}

/// "BREAK", "AND" and "ADDCOL" as words of their own between parts of a prompt.
std::string_view capital_syntax(std::string_view text, std::size_t at,
                                std::string_view word) {
  const std::size_t begin = at - std::min(at, kNear);
  const std::string_view before = text.substr(begin, at - begin);
  const std::string_view after = text.substr(at, kNear).substr(word.size());
  const std::string_view left = trimmed(before);
  const std::string_view right = trimmed(after);
  const auto is_apart = [](char c) {
    return c == ',' || is_one_of(c, kBlanks);
  };
  return !left.empty() && !right.empty() && is_apart(before.back()) &&
                 is_apart(after.front()) &&
                 is_plain(left.substr(left.find_last_of(kBlanks) + 1)) &&
                 is_plain(right.substr(0, right.find_first_of(kBlanks)))
             ? text.substr(at, word.size())
             : kNothing;
}

/// What begins at `at`, or ends `open`, the places of open brackets.
std::string_view syntax_at(std::string_view text, std::size_t at,
                           const std::vector<std::size_t>& open) {
  const std::string_view rest = text.substr(at);
  if (is_one_of(rest.front(), "([{")) {
    return bracket_syntax(text, at);
  }
  if (rest.front() == ':' && !open.empty()) {
    return weight_syntax(text, at, open.back());
  }
  if (rest.front() == '<') {
    return network_syntax(text, at);
  }
  if (at > 0 && is_one_of(rest.front(), "+-") && is_word(text[at - 1])) {
    return sign_syntax(text, at);
  }
  if (rest.front() == 'e') {
    return embedding_syntax(text, at);
  }
  if (rest.front() == '_') {
    return wildcard_syntax(text, at);
  }
  if (rest.front() == '-') {
    return parameter_syntax(text, at);
  }
  for (const std::string_view word :
       {"BREAK", "AND", "ADDCOL", "ADDROW", "ADDBASE", "ADDCOMM"}) {
    if (rest.starts_with(word)) {
      return capital_syntax(text, at, word);
    }
  }
  for (const std::string_view literal :
       {"\\(", "\\)", ").blend(", ").swap(", ").and("}) {
    if (rest.starts_with(literal)) {
      return literal;
    }
  }
  return kNothing;
}

}  // namespace

std::string_view foreign_syntax(std::string_view prompt) {
  std::vector<std::size_t> open;
  for (std::size_t at = 0; at < prompt.size(); ++at) {
    if (const auto found = syntax_at(prompt, at, open); !found.empty()) {
      return found;
    }
    if (is_one_of(prompt[at], "([")) {
      open.push_back(at);
    } else if (is_one_of(prompt[at], ")]") && !open.empty()) {
      open.pop_back();
    }
  }
  return kNothing;
}

}  // namespace troupe::models
