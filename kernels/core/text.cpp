#include "kernels/core/text.h"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

/// Well-formed, but not for a message.
constexpr std::array kHidden = {
    Range{0x00, 0x1f},        // C0 controls: escape sequences begin here
    Range{0x7f, 0x9f},        // delete, C1 controls
    Range{0xad, 0xad},        // soft hyphen
    Range{0x61c, 0x61c},      // Arabic letter mark
    Range{0x180e, 0x180e},    // Mongolian vowel separator
    Range{0x200b, 0x200b},    // zero-width space
    Range{0x200e, 0x200f},    // direction marks
    Range{0x2028, 0x202e},    // line ends, direction embeddings and overrides
    Range{0x2060, 0x206f},    // invisible operators, direction isolates
    Range{0xfeff, 0xfeff},    // byte order mark
    Range{0xfff0, 0xffff},    // annotations, noncharacters
    Range{0xe0000, 0xe0fff},  // tags
};

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

bool is_hidden(char32_t code) {
  return std::any_of(kHidden.begin(), kHidden.end(), [&](const Range& range) {
    return code >= range.first && code <= range.last;
  });
}

bool is_space(char c) { return c >= '\t' && c <= '\r'; }

}  // namespace

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun).append(
      count == 1 ? "" : "s");
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool has_word(std::string_view list, std::string_view word) noexcept {
  for (std::size_t at = list.find(word); at != std::string_view::npos;
       at = list.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') &&
        (end == list.size() || list[end] == ' ')) {
      return true;
    }
  }
  return false;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

Utf8Character first_character(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xc2 ? 0
                           : lead < 0xe0 ? 2
                           : lead < 0xf0 ? 3
                           : lead < 0xf5 ? 4
                                         : 0;
  if (size == 0 || size > text.size()) {
    return {};
  }
  char32_t code = size == 1 ? lead : lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[i])) {
      return {};
    }
    code = (code << 6U) | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[size] || is_surrogate || code > 0x10ffff) {
    return {};
  }
  return {code, size};
}

std::string printable(std::string_view text, std::size_t most) {
  std::string line;
  line.reserve(std::min(text.size(), most) + 3);
  for (std::size_t shown = 0; !text.empty(); ++shown) {
    if (shown == most) {
      return line + "…";
    }
    const Utf8Character character = first_character(text);
    if (character.size != 0 && !is_hidden(character.code)) {
      line += text.substr(0, character.size);
    } else {
      line += is_space(text[0]) ? ' ' : '?';
    }
    text.remove_prefix(std::max<std::size_t>(character.size, 1));
  }
  return line;
}

std::string in_quotes(std::string_view text) {
  return "'" + printable(text) + "'";
}

}  // namespace troupe
