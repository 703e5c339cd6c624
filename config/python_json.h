#pragma once

#include <string>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe::config {

/// Python writes what is not finite as a bare word, which is not JSON: such
/// words outside strings become strings. A reader refuses them where it wants
/// a number, instead of taking its default.
[[nodiscard]] std::string without_bare_words(std::string_view text);

/// Refuses what a parser would pass over: an object with a key twice, and more
/// than 32 levels. Any other mistake is left to the parser.
/// Errors: `code` at `place`.
void check_objects(std::string_view text, std::string_view place, Errc code);

}  // namespace troupe::config
