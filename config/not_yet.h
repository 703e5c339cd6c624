#pragma once

#include <string_view>

namespace troupe::config {

/// Refuses an option that people ask for and Troupe does not have: says what is
/// there instead. `name` is without hyphens before it, and '_' counts as '-'.
/// Any other name passes. Errors: Errc::unsupported at `place`.
void check_missing_option(std::string_view name, std::string_view place);

/// The same for a verb.
void check_missing_verb(std::string_view name);

}  // namespace troupe::config
