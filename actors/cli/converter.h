#pragma once

#include <filesystem>

namespace troupe::actors {

/// Where convert_checkpoint.py lies for the program at `program`: in the share
/// folder beside it if it is installed, in the source tree above it if it was
/// just built; its bare name where it is in neither.
[[nodiscard]] std::filesystem::path converter_of(
    const std::filesystem::path& program);

/// The same for the program that runs.
[[nodiscard]] std::filesystem::path converter();

}  // namespace troupe::actors
