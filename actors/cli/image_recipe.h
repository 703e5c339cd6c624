#pragma once

#include <string>

#include "actors/artefacts/png.h"
#include "config/recipe.h"

namespace troupe::actors {

/// Reads a PNG of at most 256 MiB. Errors: Errc::not_found,
/// Errc::corrupt_file.
[[nodiscard]] Image read_image(const std::string& path);

/// The recipe in an image. Errors: as read_image; Errc::corrupt_file without a
/// readable recipe.
[[nodiscard]] config::Recipe read_image_recipe(const std::string& path);
[[nodiscard]] config::Recipe recipe_in(const std::string& path,
                                       const Image& image);

}  // namespace troupe::actors
