#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "actors/artefacts/summary.h"
#include "actors/cli/execution_class.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/job_devices.h"
#include "actors/cli/memory_plan.h"
#include "actors/cli/model_source.h"
#include "actors/cli/notes.h"
#include "actors/cli/tensor_file.h"
#include "actors/cli/verbs.h"
#include "config/known_keys.h"
#include "config/option_table.h"
#include "config/sampling_defaults.h"
#include "config/schedule_options.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system.h"
#include "kernels/core/text.h"
#include "models/safetensors.h"

namespace troupe::actors {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKinds =
    "give a checkpoint folder, a .safetensors, .npz or .npy file, or a .png "
    "image";

std::uint64_t num_parameters(const models::Component& component) {
  std::uint64_t count = 0;
  for (const auto& file : component.weights.files()) {
    for (const models::SafetensorsEntry& entry : file->header().entries) {
      count += static_cast<std::uint64_t>(entry.shape.num_elements());
    }
  }
  return count;
}

/// Its solver as --sampler names it, or the class that Troupe does not have.
std::string describe_scheduler(const models::Checkpoint& checkpoint) {
  try {
    return config::solver_label(config::schedule_options(
        {}, checkpoint.scheduler_config, scheduler_path(checkpoint)));
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) {
      throw;
    }
    return config::scheduler_class(checkpoint.scheduler_config) +
           " (not supported; use --sampler)";
  }
}

/// What one device must hold for one image at a time, both guidance branches,
/// and how many it has room for.
Json needs_on(const std::string& name, bool is_gpu, DType compute,
              const ModelSource& source,
              std::optional<std::uint64_t> available) {
  const MemoryNeeds needs = memory_needs(
      source, is_gpu ? DeviceKind::cuda : DeviceKind::cpu, compute);
  const std::uint64_t image = 2 * needs.network.of_rows(1);
  const std::uint64_t shared =
      needs.weights_bytes + needs.decode_bytes + (is_gpu ? kGpuOverhead : 0);
  return {{"device", name},
          {"dtype", to_string(compute)},
          {"weights_bytes", needs.weights_bytes},
          {"image_bytes", image},
          {"memory_bytes", shared + image},
          {"available_bytes", available ? Json(*available) : Json()},
          {"fits", available ? Json(shared + image <= *available) : Json()}};
}

Json needs_by_device(const ModelSource& source) {
  Json list = Json::array();
  list.push_back(needs_on("cpu", false, automatic_dtype(), source,
                          memory_info().available_bytes));
  const Gpus gpus;
  for (const kernels::CudaDevice& gpu : gpus.found.devices) {
    std::optional<std::uint64_t> available;
    try {
      available = gpus.memory(gpu.index).free_bytes;
    } catch (const Error&) {
      // Doctor says what is wrong with it.
    }
    list.push_back(needs_on(
        to_string(Device{DeviceKind::cuda, gpu.index}) + " (" + gpu.name + ")",
        true, DType::bf16, source, available));
  }
  if (gpus.found.devices.empty()) {
    list.push_back(needs_on("a GPU", true, DType::bf16, source, std::nullopt));
  }
  return list;
}

/// What the folder says of how it is sampled best.
Json describe_defaults(const std::string& path) {
  Json json = Json::object();
  for (const config::Setting& setting : config::read_sampling_defaults(path)) {
    const config::Option& option = *config::find_option(setting.key);
    json[std::string(option.key)] = option.kind() == config::ValueKind::text
                                        ? Json(setting.text)
                                        : Json::parse(setting.text);
  }
  return json;
}

/// The plain list under an ordered object, whose own insertion searches all
/// keys for the new one. Append only keys that differ.
Json::object_t& as_list(Json& object) {
  return object.get_ref<Json::object_t&>();
}

Json describe_checkpoint(const std::string& path) {
  config::Config config;
  config.model_dir = path;
  const ModelSource source = ModelSource::open(config);
  const models::Checkpoint& checkpoint = *source.checkpoint();
  std::vector<std::string> notes;
  note_networks(checkpoint, source.denoiser(), notes);
  note_scheduler(checkpoint, notes);
  print_notes(notes);
  Json json = {{"kind", "checkpoint"},
               {"path", path},
               {"pipeline", checkpoint.pipeline_class},
               {"architecture", checkpoint.denoiser.class_name}};
  json["network"] = Json::object();
  for (const models::NetworkFact& fact : source.denoiser().facts()) {
    json["network"][std::string(fact.name)] = fact.value;
  }
  json.update(
      Json{{"latents", to_string(source.latent_shape())},
           {"resolution_bins", source.bins().size()},
           {"autoencoder", checkpoint.vae ? checkpoint.vae->class_name : ""},
           {"parameters", num_parameters(checkpoint.denoiser)},
           {"stored_bytes", checkpoint.stored_bytes()},
           {"memory_bytes_f32", required_bytes(source, DType::f32, 1, 2)},
           {"memory_bytes_bf16", required_bytes(source, DType::bf16, 1, 2)},
           {"memory", needs_by_device(source)},
           {"sampler", describe_scheduler(checkpoint)},
           {"classes", source.info(DType::f32).num_classes},
           {"defaults", describe_defaults(path)}});
  json["class_names"] = Json::object();
  Json::object_t& names = as_list(json["class_names"]);
  names.reserve(checkpoint.class_names.size());
  for (const auto& [id, name] : checkpoint.class_names) {
    names.emplace_back(std::to_string(id), name);
  }
  return json;
}

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
  return {
      {"kind", "image"},
      {"path", path},
      {"width", image.width},
      {"height", image.height},
      {"pixels_xxh3", to_hex(xxh3_64(std::as_bytes(std::span(image.rgb))))},
      {"recipe", image.recipe.empty()
                     ? Json()
                     : Json::parse(config::to_json(recipe_in(path, image)))}};
}

Json describe(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
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
  if (path.ends_with(".png")) {
    return describe_image(path);
  }
  throw Error(Errc::invalid_argument, path,
              "not a kind of file that Troupe knows", kKinds);
}

const std::string& string_of(const Json& json) {
  return json.get_ref<const std::string&>();
}

/// A text that a stranger's file may have chosen.
std::string text_of(const Json& json) { return printable(string_of(json)); }

std::string size_of(const Json& json) {
  return human_bytes(json.get<std::uint64_t>());
}

void print_checkpoint(const Json& j) {
  fmt::print("{}: {} ({})\n", string_of(j["path"]), text_of(j["architecture"]),
             text_of(j["pipeline"]));
  std::string facts;
  for (const auto& fact : j["network"].items()) {
    facts += fmt::format("{} {}, ", fact.key(), fact.value().get<int>());
  }
  fmt::print("  {}latents {}{}\n", facts, string_of(j["latents"]),
             j["autoencoder"] == "" ? ", no autoencoder: pixel space" : "");
  if (const auto bins = j["resolution_bins"].get<int>(); bins > 0) {
    fmt::print("  {} resolution bins: sampled at the one nearest to --size\n",
               bins);
  }
  fmt::print("  {:.1f} M parameters, {} on disk\n",
             j["parameters"].get<double>() / 1e6, size_of(j["stored_bytes"]));
  fmt::print("  memory with guidance: {} f32, {} bf16\n",
             size_of(j["memory_bytes_f32"]), size_of(j["memory_bytes_bf16"]));
  for (const Json& needs : j["memory"]) {
    fmt::print(
        "  {}: {} with {} of weights in {}, {} per image{}\n",
        string_of(needs["device"]), size_of(needs["memory_bytes"]),
        size_of(needs["weights_bytes"]), string_of(needs["dtype"]),
        size_of(needs["image_bytes"]),
        needs["fits"].is_null()
            ? std::string()
            : fmt::format("; {} free: {}", size_of(needs["available_bytes"]),
                          needs["fits"].get<bool>() ? "fits" : "does not fit"));
  }
  fmt::print("  sampler {}\n", text_of(j["sampler"]));
  for (const auto& [key, value] : j["defaults"].items()) {
    fmt::print("  default of {}: {}\n", key,
               value.is_string() ? text_of(value) : value.dump());
  }
  fmt::print("  {} classes", j["classes"].get<int>());
  constexpr std::size_t kShown = 40;
  std::vector<std::string> names;
  for (const auto& [id, name] : j["class_names"].items()) {
    names.push_back(names.size() < kShown ? id + " " + text_of(name) : id);
  }
  fmt::print("{}{}\n", names.empty() ? ", without names" : ": ",
             config::join_names(names, kShown));
}

void print_tensors(const Json& j) {
  const std::uint64_t left_out = j.value("tensors_left_out", std::uint64_t{0});
  const std::uint64_t count = j["tensors"].size() + left_out;
  fmt::print("{}: {}, {:.1f} M elements\n", string_of(j["path"]),
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
  std::istringstream recipe(j["recipe"].is_null() ? "  no recipe"
                                                  : j["recipe"].dump(2));
  for (std::string line; std::getline(recipe, line);) {
    fmt::print("{}\n", printable(line, kLongestLine));
  }
}

void print(const Json& item) {
  if (item["kind"] == "checkpoint") {
    print_checkpoint(item);
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
      items.push_back({{"path", path}, {"error", to_json(error)}});
    }
  }
  return errors.finish(invocation, {{"items", std::move(items)}});
}

}  // namespace troupe::actors
