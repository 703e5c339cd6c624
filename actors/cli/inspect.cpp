#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <sstream>

#include "actors/artefacts/json_writer.h"
#include "actors/artefacts/png.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/inspect_model.h"
#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/tensor_file.h"
#include "actors/cli/verbs.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"
#include "models/files/safetensors.h"

namespace troupe::actors {
namespace {

constexpr const char* kKinds =
    "give a checkpoint folder, a .safetensors, .npz or .npy file, a .png "
    "image, or a name that --random-weights takes";

struct TensorFileFacts {
  std::vector<StoredTensor> tensors = {};
  std::optional<JsonObject<std::string>> metadata = {};
  std::optional<std::size_t> tensors_left_out = {};
  std::optional<std::size_t> metadata_left_out = {};
  std::uint64_t elements = 0;
};

void visit_fields(auto& visit, AnyConst<TensorFileFacts> auto& r) {
  visit({"tensors", "tensor file: what it holds"}, r.tensors);
  visit(each_is("any text", {"metadata", ".safetensors: texts of its header"}),
        r.metadata);
  visit({"tensors_left_out", ".safetensors: not listed"}, r.tensors_left_out);
  visit({"metadata_left_out", ".safetensors: not listed"}, r.metadata_left_out);
  visit({"elements", "tensor file: of all tensors"}, r.elements);
}

struct ImageFacts {
  int width = 0;
  int height = 0;
  std::string pixels_xxh3 = {};
  bool stand_in_tokenizer = false;
  std::optional<nlohmann::ordered_json> recipe = {};
  std::optional<std::string> seed_text = {};
};

void visit_fields(auto& visit, AnyConst<ImageFacts> auto& r) {
  visit({"width", "image: pixels"}, r.width);
  visit({"height", "image: pixels"}, r.height);
  visit({"pixels_xxh3", "image: XXH3-64 of its RGB bytes"}, r.pixels_xxh3);
  visit({"stand_in_tokenizer",
         "image: a bundled tokenizer, made for tests, read its prompt"},
        r.stand_in_tokenizer);
  visit(or_null({"recipe", "image: see recipe below", "object or null"}),
        r.recipe);
  visit(or_null({"seed_text",
                 "image: its recipe's seed, for readers of doubles (jq)"}),
        r.seed_text);
}

/// What a path holds: a model, tensors or an image; or why nothing can be read.
struct InspectedItem {
  std::string kind = {};
  std::string path = {};
  std::optional<ModelFacts> model = {};
  std::optional<TensorFileFacts> tensors = {};
  std::optional<ImageFacts> image = {};
  std::optional<Error> error = {};
};

void visit_fields(auto& visit, AnyConst<InspectedItem> auto& r) {
  visit(if_any({"kind",
                "checkpoint, bundled (a name of --random-weights), "
                "safetensors, npz, npy or image"}),
        r.kind);
  visit({"path", "as given"}, r.path);
  visit_part(visit, r.model);
  visit_part(visit, r.tensors);
  visit_part(visit, r.image);
  visit({"error", "why it cannot be read; absent otherwise"}, r.error);
}

struct Inspected {
  std::vector<InspectedItem> items;
};

void visit_fields(auto& visit, AnyConst<Inspected> auto& r) {
  visit({"items", "one per path, in their order"}, r.items);
}

TensorFileFacts describe_tensors(const std::string& path) {
  // A header may name millions, and each takes hundreds of bytes as JSON.
  constexpr std::size_t kMostListed = 20000;
  const models::SafetensorsFile file(path);
  const models::SafetensorsHeader& header = file.header();
  TensorFileFacts facts;
  JsonObject<std::string>& metadata = facts.metadata.emplace();
  for (const auto& [key, value] : header.metadata) {
    if (metadata.size() < kMostListed) {
      metadata.emplace_back(key, value);
    }
  }
  for (const models::SafetensorsEntry& entry : header.entries) {
    facts.elements += static_cast<std::uint64_t>(entry.shape.num_elements());
    if (facts.tensors.size() < kMostListed) {
      facts.tensors.push_back({std::string(entry.name),
                               std::string(models::to_string(entry.dtype)),
                               entry.shape, entry.end - entry.begin});
    }
  }
  facts.tensors_left_out = header.entries.size() - facts.tensors.size();
  facts.metadata_left_out = header.metadata.size() - metadata.size();
  return facts;
}

/// NumPy's files.
TensorFileFacts describe_arrays(const std::string& path) {
  TensorFileFacts facts = {.tensors = read_stored(path, /*with_bytes=*/false)};
  for (StoredTensor& tensor : facts.tensors) {
    facts.elements += static_cast<std::uint64_t>(tensor.shape.num_elements());
    if (path.ends_with(".npy")) {
      tensor.name.clear();  // the file has none
    }
  }
  return facts;
}

ImageFacts describe_image(const std::string& path) {
  const Image image = read_image(path);
  ImageFacts facts = {
      .width = image.width,
      .height = image.height,
      .pixels_xxh3 = to_hex(xxh3_64(std::as_bytes(std::span(image.rgb))))};
  if (!image.recipe.empty()) {
    const config::Recipe recipe = recipe_in(path, image);
    facts.stand_in_tokenizer = recipe.prompt && !recipe.random_weights.empty();
    facts.recipe = nlohmann::ordered_json::parse(config::to_json(recipe));
    facts.seed_text = std::to_string(recipe.seed);
  }
  return facts;
}

InspectedItem describe(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found && is_bundled_model(path)) {
    return {"bundled", path, describe_bundled(path)};
  }
  require(type != std::filesystem::file_type::not_found, Errc::not_found, path,
          "no such file or folder", kKinds);
  require(!error, Errc::io, path, "cannot look at it: " + error.message(),
          "ask for the right to read the folders it lies in");
  if (std::filesystem::is_directory(path, error)) {
    return {"checkpoint", path, describe_checkpoint(path)};
  }
  if (path.ends_with(".safetensors")) {
    return {"safetensors", path, {}, describe_tensors(path)};
  }
  if (path.ends_with(".npz") || path.ends_with(".npy")) {
    return {path.substr(path.size() - 3), path, {}, describe_arrays(path)};
  }
  if (is_png_name(path)) {
    return {"image", path, {}, {}, describe_image(path)};
  }
  throw Error(Errc::invalid_argument, path,
              "not a kind of file that Troupe knows", kKinds);
}

void print_tensors(const std::string& path, const TensorFileFacts& file) {
  const std::size_t left_out = file.tensors_left_out.value_or(0);
  fmt::print("{}: {}, {:.1f} million elements\n", path,
             counted(file.tensors.size() + left_out, "tensor"),
             static_cast<double>(file.elements) / 1e6);
  for (const StoredTensor& tensor : file.tensors) {
    fmt::print("  {:<5} {:<24} {}\n", tensor.dtype, to_string(tensor.shape),
               printable(tensor.name));
  }
  if (left_out > 0) {
    fmt::print("  … and {} more\n", left_out);
  }
}

void print_image(const std::string& path, const ImageFacts& image) {
  fmt::print("{}: {}×{} pixels, hash {}\n", path, image.width, image.height,
             image.pixels_xxh3);
  if (image.stand_in_tokenizer) {
    fmt::print(
        "  a stand-in tokenizer, bundled and made for tests, read the "
        "prompt: its ids differ from those of the real one\n");
  }
  std::istringstream recipe(image.recipe ? image.recipe->dump(2)
                                         : "  no recipe");
  for (std::string line; std::getline(recipe, line);) {
    fmt::print("{}\n", printable(line, kLongestLine));
  }
}

void print(const InspectedItem& item) {
  if (item.model) {
    print_model(item.path, *item.model);
  } else if (item.tensors) {
    print_tensors(item.path, *item.tensors);
  } else if (item.image) {
    print_image(item.path, *item.image);
  }
}

}  // namespace

std::vector<JsonField> inspect_json_fields() {
  return json_rows_of<Inspected>();
}

int run_inspect(Invocation& invocation) {
  require(!invocation.files.empty(), Errc::invalid_argument, "inspect",
          "nothing to look at", kKinds);
  Inspected found;
  FileErrors errors;
  for (const std::string& path : invocation.files) {
    try {
      InspectedItem item = describe(path);
      if (!invocation.config.json) {
        print(item);
      }
      found.items.push_back(std::move(item));
    } catch (const Error& error) {
      errors.add(error);
      found.items.push_back({.path = path, .error = error});
    }
  }
  return errors.finish(invocation, json_of(found));
}

}  // namespace troupe::actors
