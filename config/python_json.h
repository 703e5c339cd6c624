#pragma once

#include <string>
#include <string_view>

namespace troupe::config {

/// Python writes what is not finite as a bare word, which is not JSON: such
/// words outside strings become strings. A reader refuses them where it wants
/// a number, instead of taking its default.
[[nodiscard]] std::string without_bare_words(std::string_view text);

}  // namespace troupe::config
