#include "models/unusable_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "kernels/core/text.h"
#include "models/json.h"
#include "models/text/prompt_pipeline.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClassPipeline = "DiTPipeline";
constexpr std::string_view kWanted =
    "give the folder of a diffusers checkpoint";

/// "owner/name", as the Hugging Face Hub names repositories; not a path that
/// begins in a folder that is here.
bool is_hub_name(const fs::path& path) {
  const std::string text = path.string();
  const auto is_word = [](std::string_view part) {
    return !part.empty() && part.front() != '.' &&
           std::ranges::all_of(part, [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
           });
  };
  const std::size_t slash = text.find('/');
  std::error_code error;
  return slash != std::string::npos && is_word(text.substr(0, slash)) &&
         is_word(text.substr(slash + 1)) &&
         !fs::is_directory(text.substr(0, slash), error);
}

Error of_a_file(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kWeights = {
      ".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".gguf"};
  const std::string extension = path.extension().string();
  const bool is_weights = std::ranges::count(kWeights, extension) > 0;
  return {Errc::unsupported, path.string(),
          is_weights ? "a single file of weights: got a file, expected a "
                       "folder in diffusers layout (single files are not read "
                       "yet)"
                     : "got a file, expected a checkpoint folder",
          is_weights ? "diffusers makes a folder of it: "
                       "from_single_file(FILE), then save_pretrained(DIR)"
                     : std::string(kWanted)};
}

Error of_another_pipeline(const fs::path& folder, const std::string& pipeline) {
  return {Errc::unsupported, folder.string(),
          "another pipeline: got " + pipeline + ", expected " +
              std::string(kClassPipeline) + " or one of " +
              prompt_pipeline_names() + " (others are coming)",
          "facebook/DiT-XL-2-256, PixArt-alpha/PixArt-Sigma-XL-2-1024-MS and "
          "stable-diffusion-v1-5/stable-diffusion-v1-5 run, for example"};
}

}  // namespace

std::string other_pipeline(const fs::path& folder) {
  try {
    const Json index = Json::read_file(folder / "model_index.json");
    const std::string name = index.string("_class_name", "");
    const bool runs =
        name == kClassPipeline || find_prompt_pipeline(name) != nullptr;
    return runs ? std::string() : name;
  } catch (const Error&) {
    return {};
  }
}

Error why_unusable(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    return of_a_file(path);
  }
  if (!fs::exists(path, error)) {
    const std::string name = path.string();
    return {Errc::not_found, name, "no such folder",
            is_hub_name(path)
                ? "download it first: hf download " + name + " --local-dir DIR"
                : std::string(kWanted)};
  }
  const std::string pipeline = other_pipeline(path);
  if (!pipeline.empty()) {
    return of_another_pipeline(path, in_quotes(pipeline));
  }
  return {Errc::not_found, path.string(),
          "no model is here: expected transformer/, unet/ or config.json",
          std::string(kWanted)};
}

}  // namespace troupe::models
