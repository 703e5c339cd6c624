#include "models/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
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
  constexpr auto kCanonical =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  constexpr auto kCompose =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<std::int32_t> characters;
  characters.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character next = first_character(text.substr(at));
    // The longest canonical decomposition has four characters.
    std::int32_t parts[8];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(
        static_cast<std::int32_t>(next.code), parts, 8, kCanonical, &boundary);
    characters.insert(characters.end(), parts,
                      parts + std::clamp<utf8proc_ssize_t>(count, 0, 8));
    at += next.size;
  }
  sort_marks(characters);
  const auto size = utf8proc_normalize_utf32(
      characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
      kCompose);
  std::string result;
  result.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(static_cast<char32_t>(characters[static_cast<std::size_t>(i)]),
                result);
  }
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
