#pragma once

#include <string>
#include <string_view>

#include "actors/cli/command_line.h"

namespace troupe::actors {

/// Characters of a line of any help: what the narrowest usual terminal shows.
inline constexpr std::size_t kHelpWidth = 80;

/// `text` beside `head` in lines of at most kHelpWidth characters, broken at
/// spaces; a longer word has a line of its own. `text` stands `indent`
/// characters from the left, below a head that is longer than that. Ends with a
/// line break.
[[nodiscard]] std::string wrapped(std::string_view head, std::string_view text,
                                  std::size_t indent);

/// The verbs, and the topics of `troupe help TOPIC`.
[[nodiscard]] std::string help_overview();

/// A verb's options, of those marked as used often or all, and its examples.
/// A verb that marks none shows all.
[[nodiscard]] std::string help_text(const VerbInfo& verb, bool all);

}  // namespace troupe::actors
