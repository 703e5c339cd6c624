#pragma once

#include <string>

#include "actors/artefacts/png.h"
#include "config/config.h"
#include "config/recipe.h"

namespace troupe::actors {

/// Reads a PNG of at most 256 MiB. Errors: Errc::not_found; Errc::io;
/// Errc::invalid_argument for a larger file; Errc::corrupt_file.
[[nodiscard]] Image read_image(const std::string& path);

/// The recipe in an image. Errors: Errc::corrupt_file without a readable one.
[[nodiscard]] config::Recipe recipe_in(const std::string& path,
                                       const Image& image);

/// The same, to be run again. Errors: Errc::corrupt_file also for values that
/// no job can have.
[[nodiscard]] config::Recipe runnable_recipe_in(const std::string& path,
                                                const Image& image);

/// A recipe names a model, and not where it lies. Null: there is no recipe.
/// Errors: Errc::invalid_argument where the options do not say.
void check_names_model(const config::Config& config,
                       const config::Recipe* recipe);

}  // namespace troupe::actors
