#include "actors/cli/image_recipe.h"

#include <span>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "samplers/parallel/method.h"
#include "samplers/schedule.h"

namespace troupe::actors {

Image read_image(const std::string& path) {
  const std::string content = read_file(path, kLargestPng);
  return decode_png(path, std::as_bytes(std::span(content)));
}

config::Recipe recipe_in(const std::string& path, const Image& image) {
  require(!image.recipe.empty(), Errc::corrupt_file, path,
          "the image carries no recipe",
          "only PNGs written by troupe sample do, unless a tool removed it");
  return config::parse_recipe(path, image.recipe);
}

config::Recipe runnable_recipe_in(const std::string& path, const Image& image) {
  constexpr const char* kHint = "was the recipe changed?";
  config::Recipe recipe = recipe_in(path, image);
  require(recipe.class_id >= 0, Errc::corrupt_file, path + ": class_id",
          "got " + std::to_string(recipe.class_id) + ", expected at least 0",
          kHint);
  try {
    const samplers::Schedule schedule(recipe.schedule);
    (void)samplers::make_method(recipe.method, schedule);
  } catch (const Error& error) {
    throw Error(Errc::corrupt_file, path + ": " + error.place(),
                error.message(), kHint);
  }
  return recipe;
}

}  // namespace troupe::actors
