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

/// `text` made safe for terminals and JSON readers: one line of UTF-8. White
/// space becomes ' '. '?' replaces bytes that are not UTF-8 and characters that
/// act on a terminal or change the order of text (controls, direction overrides
/// and marks, invisible ones). What follows the first `most` characters is
/// replaced by "…" and not looked at.
/// Source: Unicode 15.0, table 3-7; UTS 55 (source code handling).
[[nodiscard]] std::string printable(std::string_view text,
                                    std::size_t most = kLongestQuote);

/// printable(text) in quotes. Every message shows a piece of input so.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// "1 image", "2 images".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);

/// `text` without leading and trailing white space.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Whether `word` is one of the words of `list`, which spaces separate.
[[nodiscard]] bool has_word(std::string_view list,
                            std::string_view word) noexcept;

/// `text` with ASCII letters in lower case.
[[nodiscard]] std::string lowered(std::string_view text);

/// A character and the number of its bytes in UTF-8.
struct Utf8Character {
  char32_t code = 0;
  std::size_t size = 0;  ///< bytes
};

/// The first character of `text`, which is not empty; size 0 where the text
/// does not begin with valid UTF-8.
[[nodiscard]] Utf8Character first_character(std::string_view text) noexcept;

}  // namespace troupe
