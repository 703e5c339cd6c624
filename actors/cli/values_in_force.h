#pragma once

#include <string>

#include "actors/cli/verbs.h"

namespace troupe::actors {

/// What --print-config prints: every option of the verb with the value that a
/// run would have and where it comes from, as TOML that --config reads back.
/// Where a model is named its folder is opened, no weights are read; with
/// --from the recipe is merged into `invocation.config`.
/// Errors: those of make_request.
[[nodiscard]] std::string values_in_force(config::Verb verb,
                                          Invocation& invocation);

}  // namespace troupe::actors
