#pragma once

#include <string>
#include <string_view>

namespace troupe::config {

/// Python writes an infinite bound as a bare word, which is not JSON: such
/// words outside strings become null, which means the default.
[[nodiscard]] std::string without_bare_words(std::string_view text);

}  // namespace troupe::config
