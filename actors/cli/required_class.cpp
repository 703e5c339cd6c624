#include "actors/cli/required_class.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "actors/cli/execution_class.h"
#include "actors/cli/image_recipe.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// As to_hex writes one: of a class, of weights.
bool is_hash(const std::string& text) {
  return text.size() == 16 && std::ranges::all_of(text, [](unsigned char c) {
           return std::isxdigit(c) != 0;
         });
}

}  // namespace

RequiredClass RequiredClass::of(const config::Config& config) {
  const std::string& given = config.require_class;
  if (given.empty()) {
    return {};
  }
  if (is_hash(given)) {
    return {lowered(given), {}};
  }
  std::error_code error;
  if (!std::filesystem::exists(given, error)) {
    throw Error(Errc::invalid_argument, config.place_of("require-class"),
                "got " + in_quotes(given) +
                    ", expected a class (16 hexadecimal digits) or an image "
                    "that troupe made",
                "the last line of --json and troupe inspect IMAGE name a "
                "class");
  }
  const config::Recipe recipe = recipe_in(given, read_image(given));
  require(is_hash(recipe.execution_class), Errc::corrupt_file, given,
          "its recipe names no execution class", "was the recipe changed?");
  return {recipe.execution_class, recipe.weights_xxh3};
}

void RequiredClass::check_before_loading(const JobRequest& request,
                                         const RunOutputs& outputs) const {
  if (name.empty()) {
    return;
  }
  for (const EarlierImage& image : outputs.skipped) {
    check_image(image, outputs.images->path(image.index).string());
  }
  if (is_hash(weights_xxh3)) {
    check(request, std::stoull(weights_xxh3, nullptr, 16));
  }
}

void RequiredClass::check_image(const EarlierImage& image,
                                const std::string& path) const {
  if (!name.empty() && image.execution_class != name) {
    throw Error(Errc::another_class, path,
                "the image that is there is of another execution class: got " +
                    printable(image.execution_class) + ", expected " + name,
                "give another --out, or --exists replace");
  }
}

void RequiredClass::check(const JobRequest& request,
                          std::uint64_t weights_hash) const {
  if (name.empty()) {
    return;
  }
  for (const JobDevice& device : request.devices) {
    if (device.workers == 0) {
      continue;
    }
    const std::string here = execution_class(execution_conditions(
        weights_hash, device, request.job.method, request.job.ring_blocks));
    if (here != name) {
      throw Error(
          Errc::another_class, "--require-class",
          "this job is of another execution class on " + device.label() +
              ": got " + here + ", expected " + name,
          "a class follows from the weights, the build and its libraries, the "
          "processor's instructions, --dtype and the method");
    }
  }
}

}  // namespace troupe::actors
