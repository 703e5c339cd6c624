#include "models/text/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;

std::vector<char32_t> characters_of(std::string_view text) {
  check_utf8(text, "prompt", Errc::invalid_argument);
  std::vector<char32_t> characters;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character next = first_character(text.substr(at));
    characters.push_back(next.code);
    at += next.size;
  }
  return characters;
}

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

/// Unicode's Cased, which differs from the categories in letters that are small
/// or capital by their shape alone.
bool is_cased(char32_t code) {
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      break;
  }
  // Other_Lowercase and Other_Uppercase of Unicode 15, PropList.txt.
  constexpr std::array<std::array<char32_t, 2>, 30> kOthers = {
      {{0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},
       {0x2C0, 0x2C1},     {0x2E0, 0x2E4},     {0x345, 0x345},
       {0x37A, 0x37A},     {0x10FC, 0x10FC},   {0x1D2C, 0x1D6A},
       {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},
       {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2160, 0x217F},
       {0x24B6, 0x24E9},   {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},
       {0xA770, 0xA770},   {0xA7F2, 0xA7F4},   {0xA7F8, 0xA7F9},
       {0xAB5C, 0xAB5F},   {0xAB69, 0xAB69},   {0x10780, 0x10780},
       {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
       {0x1E030, 0x1E06D}, {0x1F130, 0x1F149}, {0x1F150, 0x1F189}}};
  return std::ranges::any_of(kOthers, [code](const auto& range) {
    return range[0] <= code && code <= range[1];
  });
}

/// Unicode's Case_Ignorable: marks, modifiers, and signs within words.
bool is_case_ignorable(char32_t code) {
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  // MidLetter, MidNumLet and Single_Quote of Unicode 15, WordBreakProperty.txt.
  constexpr std::array<char32_t, 17> kWithinWords = {
      0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
      0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  return std::ranges::find(kWithinWords, code) != kWithinWords.end();
}

/// Whether the sigma at `at` ends a word: a cased letter stands before the
/// sigma and no cased letter behind it; ignorable characters do not count.
bool ends_word(const std::vector<char32_t>& text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) {
    --before;
  }
  if (before == 0 || !is_cased(text[before - 1])) {
    return false;
  }
  std::size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) {
    ++after;
  }
  return after == text.size() || !is_cased(text[after]);
}

/// str.isspace(): separators, and control characters that separate.
bool is_space(char32_t code) {
  return (code >= 0x9 && code <= 0xD) || (code >= 0x1C && code <= 0x1F) ||
         code == 0x85 || category_of(code) == UTF8PROC_CATEGORY_ZS ||
         code == 0x2028 || code == 0x2029;
}

}  // namespace

std::string python_lowered(std::string_view text) {
  const std::vector<char32_t> characters = characters_of(text);
  std::string lowered;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const char32_t code = characters[i];
    if (code == kCapitalSigma && ends_word(characters, i)) {
      append_utf8(kFinalSigma, lowered);
    } else {
      append_lowered(code, lowered);
    }
  }
  return lowered;
}

std::string python_stripped(std::string_view text) {
  const std::vector<char32_t> characters = characters_of(text);
  const auto keeps = [](char32_t code) { return !is_space(code); };
  const auto begin = std::ranges::find_if(characters, keeps);
  const auto end = std::find_if(characters.rbegin(), characters.rend(), keeps);
  std::string stripped;
  std::for_each(begin, std::max(begin, end.base()),
                [&](char32_t code) { append_utf8(code, stripped); });
  return stripped;
}

}  // namespace troupe::models
