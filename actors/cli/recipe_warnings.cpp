#include "actors/cli/recipe_warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/cli/earlier_run.h"
#include "actors/cli/notes.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"

namespace troupe::actors {

void warn_of_others(const config::Recipe& recipe, const JobRequest& request,
                    const JobRunner& runner) {
  const std::vector<std::string>& classes = runner.execution_classes();
  if (recipe.weights_xxh3 != to_hex(runner.weights_hash())) {
    log_message(LogLevel::warning,
                "these are not the weights the image was made with (" +
                    recipe.model + "): its pixels will not come back");
  } else if (std::ranges::find(classes, recipe.execution_class) ==
             classes.end()) {
    log_message(LogLevel::warning,
                fmt::format("the image was made by another execution class "
                            "({}) than this run's ({}): its bytes may not "
                            "come back",
                            recipe.execution_class, fmt::join(classes, ", ")));
  }
  const std::string& latents = recipe.init_latents_xxh3;
  if (!latents.empty() && request.samples.begin <= recipe.index &&
      recipe.index < request.samples.end &&
      request.recipe_of(recipe.index).init_latents_xxh3 != latents) {
    log_message(LogLevel::warning,
                "--init-latents holds other latents than those the image was "
                "made from: its pixels will not come back");
  }
}

void say_other_classes(std::span<const EarlierImage> images,
                       const std::vector<std::string>& classes,
                       std::vector<std::string>& notes) {
  const std::string note = class_note(images, classes);
  if (!note.empty()) {
    print_notes({note});
    notes.push_back(note);
  }
}

}  // namespace troupe::actors
