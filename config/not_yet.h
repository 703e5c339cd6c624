#pragma once

#include <string>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe::config {

/// What people ask for and Troupe does not do: said as it is, with what there
/// is instead.
struct NotYet {
  std::string_view names;  ///< spellings, comma-separated; the first is shown
  std::string_view says;   ///< what is not there, and whether it is coming
  std::string_view hint;   ///< what to do today
};

/// The row of an option's name without hyphens before it ('_' counts as '-'),
/// or null.
[[nodiscard]] const NotYet* find_missing_option(std::string_view name);

/// The row of a verb, or null.
[[nodiscard]] const NotYet* find_missing_verb(std::string_view name);

/// Errc::unsupported at `place`.
[[nodiscard]] Error to_error(const NotYet& row, std::string_view place);

}  // namespace troupe::config
