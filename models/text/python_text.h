#pragma once

#include <string>
#include <string_view>

namespace troupe::models {

// What Python's str does to text, as pipelines of diffusers use it.
// Errors (all): Errc::invalid_argument for ill-formed UTF-8.

/// str.lower(): each character's full lower case, with the rule for a Greek
/// sigma that ends a word. Source: CPython Objects/unicodeobject.c; the Unicode
/// standard, section 3.13.
[[nodiscard]] std::string python_lowered(std::string_view text);

/// str.strip(): no white space at either end.
[[nodiscard]] std::string python_stripped(std::string_view text);

}  // namespace troupe::models
