#pragma once

#include <filesystem>
#include <string>

#include "kernels/core/error.h"

namespace troupe::models {

/// The error that says why no model can be opened at `path`, which is no folder
/// with a transformer: it is a single file, another pipeline, a name on the
/// Hub, or nothing. Reads at most the folder's model_index.json. Does not
/// throw.
[[nodiscard]] Error why_unusable(const std::filesystem::path& path);

/// The pipeline that the folder's model_index.json names, if Troupe cannot run
/// it; otherwise empty, also where the file cannot be read.
[[nodiscard]] std::string other_pipeline(const std::filesystem::path& folder);

}  // namespace troupe::models
