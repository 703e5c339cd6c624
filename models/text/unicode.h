#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe::models {

// What tokenizers ask of Unicode 15.0. All text is well-formed UTF-8, but for
// check_utf8. Thread: any.

/// What a word may be made of.
enum class CharacterKind : std::uint8_t {
  letter,  ///< categories L*
  number,  ///< categories N*
  space,   ///< White_Space
  other,
};

/// Errors: `code` at `place` if the text is not UTF-8, with the byte offset.
void check_utf8(std::string_view text, std::string_view place, Errc code);
/// Whether the text is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

[[nodiscard]] CharacterKind kind_of(char32_t character) noexcept;
[[nodiscard]] bool is_white_space(char32_t character) noexcept;

void append_utf8(char32_t character, std::string& to);

/// Normalization Form C with the tables of Unicode 9, which are those of the
/// library that transformers runs. Time: n log n, whatever the order of marks.
[[nodiscard]] std::string composed(std::string_view text);
/// Appends the lower case of one character by itself. There is no rule for a
/// final sigma; U+0130 is the only one that becomes two characters.
void append_lowered(char32_t character, std::string& to);

/// Bytes of the extended grapheme cluster that `text`, which is not empty,
/// begins with. Source: UAX 29, but for rule GB9c.
[[nodiscard]] std::size_t cluster_size(std::string_view text) noexcept;

}  // namespace troupe::models
