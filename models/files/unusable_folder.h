#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe::models {

/// What converts the pickled weights of a folder and of its parts.
struct ConversionCommand {
  std::filesystem::path converter;
  std::filesystem::path folder;
};

/// The error that says why no model can be opened at `command.folder`, which is
/// no folder with a transformer: it is a single file, another pipeline, a name
/// on the Hub, a folder around the checkpoint's, or nothing. Does not throw.
[[nodiscard]] Error why_unusable(const ConversionCommand& command);

/// The error that says why the folder of a component has no weights to open:
/// they are pickled, have another name or no index, or are not there. stem: of
/// the names that are looked for. Does not throw.
[[nodiscard]] Error why_no_weights(const std::filesystem::path& folder,
                                   std::string_view stem,
                                   const ConversionCommand& command);

/// The pipeline that the folder's model_index.json names, if Troupe cannot run
/// it; otherwise empty, also where the file cannot be read.
[[nodiscard]] std::string other_pipeline(const std::filesystem::path& folder);

}  // namespace troupe::models
