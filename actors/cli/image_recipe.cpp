#include "actors/cli/image_recipe.h"

#include <span>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"

namespace troupe::actors {

Image read_image(const std::string& path) {
  constexpr std::size_t kMaxBytes = std::size_t{256} << 20U;
  const std::string content = read_file(path, kMaxBytes);
  return decode_png(path, std::as_bytes(std::span(content)));
}

config::Recipe read_image_recipe(const std::string& path) {
  return recipe_in(path, read_image(path));
}

config::Recipe recipe_in(const std::string& path, const Image& image) {
  require(!image.recipe.empty(), Errc::corrupt_file, path,
          "the image carries no recipe",
          "only PNGs written by troupe sample do, unless a tool removed it");
  return config::parse_recipe(path, image.recipe);
}

}  // namespace troupe::actors
