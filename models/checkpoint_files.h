#pragma once

#include <filesystem>
#include <vector>

#include "models/checkpoint.h"

namespace troupe::models {

/// What a copy of the folder needs to be opened as the folder itself: weights
/// and JSON. Paths within the folder, sorted. Symbolic links are named as what
/// they lead to would be. Errors: Errc::io.
[[nodiscard]] std::vector<std::filesystem::path> files_of(
    const Checkpoint& checkpoint);

}  // namespace troupe::models
