#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// Characters of one piece of input that a message shows.
inline constexpr std::size_t kLongestQuote = 200;
/// Characters of one line that is printed.
inline constexpr std::size_t kLongestLine = 4096;

/// `text` as a terminal and a JSON reader may have it, whatever it holds: UTF-8
/// on one line. White space becomes ' '; '?' stands for bytes that are not
/// UTF-8 and for characters that act on a terminal or reorder what stands
/// around them (controls, direction overrides and marks, invisible ones). Text
/// behind the first `most` characters is replaced by "…" and not looked at.
/// Source: Unicode 15.0, table 3-7; UTS 55 (source code handling).
[[nodiscard]] std::string printable(std::string_view text,
                                    std::size_t most = kLongestQuote);

/// The same in quotes: how every message shows a piece of input.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// "1 image", "2 images".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);

/// Without the white space around it.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Whether `word` is one of the words of a list, which are separated by spaces.
[[nodiscard]] bool has_word(std::string_view list,
                            std::string_view word) noexcept;

/// With small letters where ASCII has them.
[[nodiscard]] std::string lowered(std::string_view text);

/// A character of UTF-8 and its bytes.
struct Utf8Character {
  char32_t code = 0;
  std::size_t size = 0;
};

/// The character that `text` (not empty) begins with; size 0 where it begins
/// with none.
[[nodiscard]] Utf8Character first_character(std::string_view text) noexcept;

}  // namespace troupe
