#pragma once

#include <filesystem>
#include <string>

#include "kernels/core/error.h"

namespace troupe::models {

/// Why no model can be opened at `path`, which is not a folder with a
/// transformer: a single file, another pipeline, a name of the Hub, nothing.
/// Reads at most the folder's model_index.json and throws nothing of its own.
[[nodiscard]] Error why_unusable(const std::filesystem::path& path);

/// The pipeline that a folder's model_index.json names, if it is one that
/// cannot be run; empty otherwise, also where the file cannot be read.
[[nodiscard]] std::string other_pipeline(const std::filesystem::path& folder);

}  // namespace troupe::models
