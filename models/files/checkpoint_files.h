#pragma once

#include <filesystem>
#include <vector>

#include "models/files/checkpoint.h"

namespace troupe::models {

/// The files that make a copy of the checkpoint's folder as good as the folder:
/// its weights and its JSON. Paths within the folder, sorted. A symbolic link
/// is listed by its own path, and a copy has a file there. Errors: Errc::io.
[[nodiscard]] std::vector<std::filesystem::path> files_of(
    const Checkpoint& checkpoint);

}  // namespace troupe::models
