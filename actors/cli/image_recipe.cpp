#include "actors/cli/image_recipe.h"

#include <filesystem>
#include <span>

#include "actors/cli/isa_in_force.h"
#include "actors/cli/verbs.h"
#include "config/load_config.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/text.h"
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

void check_names_model(const config::Config& config,
                       const config::Recipe* recipe) {
  if (recipe != nullptr && config.model_dir.empty() &&
      config.random_weights.empty()) {
    throw Error(Errc::invalid_argument, "--model",
                "no model named: the recipe says " + in_quotes(recipe->model),
                "give --model DIR, the folder of that model");
  }
}

namespace {

/// Where an image goes that is drawn again and nobody says where: beside the
/// first one. "dir/fox-again.png" of "dir/fox.png", of several
/// "dir/fox-again-{index}.png".
std::string beside(const std::filesystem::path& path, bool is_one) {
  std::filesystem::path name = path.stem();
  name += is_one ? "-again.png" : "-again-{index}.png";
  return path.parent_path() / name;
}

}  // namespace

std::optional<config::Recipe> take_recipe(Invocation& invocation) {
  const std::string& path = invocation.config.from;
  if (path.empty()) {
    return std::nullopt;
  }
  config::Recipe recipe = runnable_recipe_in(path, read_image(path));
  require(recipe.init_latents_xxh3.empty() ||
              !invocation.config.init_latents.empty(),
          Errc::invalid_argument, "--from",
          "the image was made from given latents, which its recipe cannot hold",
          "add --init-latents FILE");
  require(!recipe.prompt_embeds_xxh3 ||
              !invocation.config.prompt_embeds.empty() ||
              !invocation.config.prompts.empty(),
          Errc::invalid_argument, "--from",
          "the image was made from given embeddings, which its recipe cannot "
          "hold",
          "add --prompt-embeds FILE");
  config::Sources sources = invocation.sources;
  sources.recipe = config::to_settings(recipe, path);
  sources.recipe_needs_latents = !recipe.init_latents_xxh3.empty();
  sources.recipe_needs_embeds = recipe.prompt_embeds_xxh3.has_value();
  sources.recipe_needs_guess = recipe.guess_xxh3.has_value();
  const bool is_held = names_level(invocation.config);
  invocation.config = config::load_config(config::Verb::sample, sources);
  config::Config& config = invocation.config;
  if (config.out.empty() && config.grid.empty() && config.save.empty() &&
      !config.dry_run && !config.print_job) {
    config.out = beside(path, config.samples.size() == 1);
  }
  require(is_held || try_hold_as_recipe(invocation.config, invocation.isa_held),
          Errc::internal, "--isa",
          "something was computed before the recipe was read");
  return recipe;
}

}  // namespace troupe::actors
