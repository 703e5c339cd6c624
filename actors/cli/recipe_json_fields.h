#pragma once

#include <span>

#include "actors/cli/help_topics.h"

namespace troupe::actors {

/// Keys of the two documents that say what is computed: the recipe in an image,
/// and the job that --print-job prints. To add one: a row of the .cpp file.
[[nodiscard]] std::span<const JsonField> recipe_json_fields();
[[nodiscard]] std::span<const JsonField> job_json_fields();

}  // namespace troupe::actors
