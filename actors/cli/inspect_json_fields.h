#pragma once

#include <span>

#include "actors/cli/help_topics.h"

namespace troupe::actors {

/// Every key of what `inspect` prints of its paths.
[[nodiscard]] std::span<const JsonField> inspect_json_fields();

}  // namespace troupe::actors
