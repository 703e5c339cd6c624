#pragma once

#include <string_view>

namespace troupe::config {

/// Refuses a well-known option that Troupe does not have, and names the
/// replacement. `name` is without hyphens before it, and '_' counts as '-'. Any
/// other name passes. Errors: Errc::unsupported at `place`.
void check_missing_option(std::string_view name, std::string_view place);

/// The same for a verb.
void check_missing_verb(std::string_view name);

}  // namespace troupe::config
