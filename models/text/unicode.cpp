#include "models/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/core/text.h"

namespace troupe::models {
namespace {

/// Offset of the first byte that is not UTF-8; text.size(): there is none.
std::size_t valid_bytes(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = first_character(text.substr(at)).size;
    if (size == 0) {
      break;
    }
    at += size;
  }
  return at;
}

std::int32_t combining_class(std::int32_t character) noexcept {
  return utf8proc_get_property(character)->combining_class;
}

/// Canonical order: marks between two starters by their class. (The library
/// sorts by neighbours, which takes n² for a long row of marks.)
void sort_marks(std::vector<std::int32_t>& text) {
  auto at = text.begin();
  while (at != text.end()) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(
        at, text.end(), [](std::int32_t c) { return combining_class(c) == 0; });
    std::stable_sort(at, end, [](std::int32_t a, std::int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    at = end;
  }
}

constexpr auto kDecompose =
    static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
constexpr auto kCompose =
    static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

void append_decomposed(char32_t character, std::vector<std::int32_t>& to) {
  // The longest canonical decomposition has four characters.
  std::int32_t parts[8];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(
      static_cast<std::int32_t>(character), parts, 8, kDecompose, &boundary);
  to.insert(to.end(), parts, parts + std::clamp<utf8proc_ssize_t>(count, 0, 8));
}

/// Sorts and composes a decomposed text, which is empty afterwards.
void append_composed(std::vector<std::int32_t>& text, std::string& to) {
  sort_marks(text);
  const auto size = utf8proc_normalize_utf32(
      text.data(), static_cast<utf8proc_ssize_t>(text.size()), kCompose);
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(static_cast<char32_t>(text[static_cast<std::size_t>(i)]), to);
  }
  text.clear();
}

struct Range {
  char32_t first;
  char32_t last;
};

/// Characters that have a combining class, or compose, only since Unicode 10.
/// The library that transformers runs normalises with the tables of Unicode 9:
/// with those tables, the newer marks neither move nor compose, and block the
/// moves and compositions of their neighbours. Found by asking it for every
/// character with a class in Unicode 15.
constexpr Range kNewerMarks[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},
    {0x9fe, 0x9fe},     {0xc3c, 0xc3c},     {0xd3b, 0xd3c},
    {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},
    {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930},
    {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97},
    {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}};

bool is_newer_mark(char32_t character) noexcept {
  if (character < kNewerMarks[0].first) {
    return false;
  }
  const Range* const range =
      std::ranges::upper_bound(kNewerMarks, character, {}, &Range::first);
  return character <= std::prev(range)->last;
}

}  // namespace

void check_utf8(std::string_view text, std::string_view place, Errc code) {
  const std::size_t valid = valid_bytes(text);
  if (valid != text.size()) {
    throw Error(code, place,
                "not UTF-8: got byte " +
                    std::to_string(static_cast<unsigned char>(text[valid])) +
                    " at offset " + std::to_string(valid) +
                    ", expected the next character",
                "save the text as UTF-8");
  }
}

bool is_utf8(std::string_view text) noexcept {
  return valid_bytes(text) == text.size();
}

bool is_white_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

CharacterKind kind_of(char32_t character) noexcept {
  if (is_white_space(character)) {
    return CharacterKind::space;
  }
  switch (utf8proc_category(static_cast<std::int32_t>(character))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterKind::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterKind::number;
    default:
      return CharacterKind::other;
  }
}

void append_utf8(char32_t character, std::string& to) {
  utf8proc_uint8_t bytes[4];
  const auto size =
      utf8proc_encode_char(static_cast<std::int32_t>(character), bytes);
  to.append(reinterpret_cast<const char*>(bytes),
            static_cast<std::size_t>(size));
}

std::string composed(std::string_view text) {
  std::vector<std::int32_t> part;
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    if (is_newer_mark(next.code)) {
      append_composed(part, result);
      append_utf8(next.code, result);
    } else {
      append_decomposed(next.code, part);
    }
    text.remove_prefix(next.size);
  }
  append_composed(part, result);
  return result;
}

void append_lowered(char32_t character, std::string& to) {
  constexpr char32_t kCapitalDottedI = 0x130;
  if (character == kCapitalDottedI) {
    to += "i\u0307";
    return;
  }
  append_utf8(static_cast<char32_t>(
                  utf8proc_tolower(static_cast<std::int32_t>(character))),
              to);
}

std::size_t cluster_size(std::string_view text) noexcept {
  Utf8Character before = first_character(text);
  std::size_t size = before.size;
  std::int32_t state = 0;
  while (size < text.size()) {
    const Utf8Character next = first_character(text.substr(size));
    if (utf8proc_grapheme_break_stateful(static_cast<std::int32_t>(before.code),
                                         static_cast<std::int32_t>(next.code),
                                         &state)) {
      break;
    }
    size += next.size;
    before = next;
  }
  return size;
}

}  // namespace troupe::models
