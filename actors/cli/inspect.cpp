#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "actors/artefacts/json_writer.h"
#include "actors/artefacts/png.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/inspect_items.h"
#include "actors/cli/tensor_file.h"
#include "actors/cli/verbs.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "models/safetensors.h"

namespace troupe::actors {
namespace {

using Json = InspectedItem;

constexpr const char* kKinds =
    "give a checkpoint folder, a .safetensors, .npz or .npy file, a .png "
    "image, or a name that --random-weights takes";

Json describe_tensors(const std::string& path) {
  // A header may name millions, and each takes hundreds of bytes as JSON.
  constexpr std::size_t kMostListed = 20000;
  const models::SafetensorsFile file(path);
  const auto& entries = file.header().entries;
  const auto& metadata = file.header().metadata;
  Json json = {{"kind", "safetensors"},
               {"path", path},
               {"tensors", Json::array()},
               {"metadata", Json::object()}};
  for (const auto& [key, value] : metadata) {
    if (json["metadata"].size() == kMostListed) {
      break;
    }
    as_list(json["metadata"]).emplace_back(std::string(key), value);
  }
  std::uint64_t elements = 0;
  for (const models::SafetensorsEntry& entry : entries) {
    elements += static_cast<std::uint64_t>(entry.shape.num_elements());
    if (json["tensors"].size() < kMostListed) {
      json["tensors"].push_back({{"name", std::string(entry.name)},
                                 {"dtype", models::to_string(entry.dtype)},
                                 {"shape", to_string(entry.shape)},
                                 {"bytes", entry.end - entry.begin}});
    }
  }
  json["tensors_left_out"] = entries.size() - json["tensors"].size();
  json["metadata_left_out"] = metadata.size() - json["metadata"].size();
  json["elements"] = elements;
  return json;
}

/// NumPy's files.
Json describe_arrays(const std::string& path) {
  Json json = {{"kind", path.ends_with(".npz") ? "npz" : "npy"},
               {"path", path},
               {"tensors", Json::array()}};
  std::uint64_t elements = 0;
  for (const StoredTensor& tensor : read_stored(path, /*with_bytes=*/false)) {
    elements += static_cast<std::uint64_t>(tensor.shape.num_elements());
    json["tensors"].push_back(
        {{"name", json["kind"] == "npy" ? "" : tensor.name},
         {"dtype", tensor.dtype},
         {"shape", to_string(tensor.shape)},
         {"bytes", tensor.num_bytes}});
  }
  json["elements"] = elements;
  return json;
}

Json describe_image(const std::string& path) {
  const Image image = read_image(path);
  std::optional<config::Recipe> recipe;
  if (!image.recipe.empty()) {
    recipe = recipe_in(path, image);
  }
  return {{"kind", "image"},
          {"path", path},
          {"width", image.width},
          {"height", image.height},
          {"pixels_xxh3", to_hex(xxh3_64(std::as_bytes(std::span(image.rgb))))},
          {"stand_in_tokenizer",
           recipe && recipe->prompt && !recipe->random_weights.empty()},
          {"recipe", recipe ? Json::parse(config::to_json(*recipe)) : Json()},
          {"seed_text", recipe ? Json(std::to_string(recipe->seed)) : Json()}};
}

Json describe(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found && is_bundled_model(path)) {
    return describe_bundled(path);
  }
  require(type != std::filesystem::file_type::not_found, Errc::not_found, path,
          "no such file or folder", kKinds);
  require(!error, Errc::io, path, "cannot look at it: " + error.message(),
          "ask for the right to read the folders it lies in");
  if (std::filesystem::is_directory(path, error)) {
    return describe_checkpoint(path);
  }
  if (path.ends_with(".safetensors")) {
    return describe_tensors(path);
  }
  if (path.ends_with(".npz") || path.ends_with(".npy")) {
    return describe_arrays(path);
  }
  if (is_png_name(path)) {
    return describe_image(path);
  }
  throw Error(Errc::invalid_argument, path,
              "not a kind of file that Troupe knows", kKinds);
}

void print_tensors(const Json& j) {
  const std::uint64_t left_out = j.value("tensors_left_out", std::uint64_t{0});
  const std::uint64_t count = j["tensors"].size() + left_out;
  fmt::print("{}: {}, {:.1f} million elements\n", string_of(j["path"]),
             counted(count, "tensor"), j["elements"].get<double>() / 1e6);
  for (const Json& tensor : j["tensors"]) {
    fmt::print("  {:<5} {:<24} {}\n", string_of(tensor["dtype"]),
               string_of(tensor["shape"]), text_of(tensor["name"]));
  }
  if (left_out > 0) {
    fmt::print("  … and {} more\n", left_out);
  }
}

void print_image(const Json& j) {
  fmt::print("{}: {}×{} pixels, hash {}\n", string_of(j["path"]),
             j["width"].get<int>(), j["height"].get<int>(),
             string_of(j["pixels_xxh3"]));
  if (j["stand_in_tokenizer"].get<bool>()) {
    fmt::print(
        "  a stand-in tokenizer, bundled and made for tests, read the "
        "prompt: its ids differ from those of the real one\n");
  }
  std::istringstream recipe(j["recipe"].is_null() ? "  no recipe"
                                                  : j["recipe"].dump(2));
  for (std::string line; std::getline(recipe, line);) {
    fmt::print("{}\n", printable(line, kLongestLine));
  }
}

void print(const Json& item) {
  if (item["kind"] == "checkpoint" || item["kind"] == "bundled") {
    print_model(item);
  } else if (item["kind"] == "image") {
    print_image(item);
  } else {
    print_tensors(item);
  }
}

}  // namespace

int run_inspect(Invocation& invocation) {
  require(!invocation.files.empty(), Errc::invalid_argument, "inspect",
          "nothing to look at", kKinds);
  Json items = Json::array();
  FileErrors errors;
  for (const std::string& path : invocation.files) {
    try {
      Json item = describe(path);
      if (!invocation.config.json) {
        print(item);
      }
      items.push_back(std::move(item));
    } catch (const Error& error) {
      errors.add(error);
      items.push_back({{"path", path}, {"error", json_of(error)}});
    }
  }
  return errors.finish(invocation, {{"items", std::move(items)}});
}

}  // namespace troupe::actors
