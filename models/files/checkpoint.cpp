#include "models/files/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/file_type.h"
#include "kernels/core/text.h"
#include "models/files/unusable_folder.h"
#include "models/text/prompt_pipeline.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestConfig = std::size_t{16} << 20U;

/// Whoever opens a file in a link to nothing says where the link leads.
bool is_folder(const fs::path& path) {
  const fs::file_type type = type_at(path);
  return type == fs::file_type::directory || type == fs::file_type::symlink;
}

/// How a library names the files of weights, and which it takes where a whole
/// file and shards are there: diffusers reads the shards, transformers the
/// whole file.
struct WeightNames {
  const char* stem;
  bool shards_first;
};

constexpr WeightNames kDiffusers = {"diffusion_pytorch_model", true};
constexpr WeightNames kTransformers = {"model", false};

struct Weights {
  TensorFiles files;
  std::string variant;
  fs::path passed_over;
};

/// Where the index is one of an earlier time, the whole file may be meant.
TensorFiles open_shards(const fs::path& index, const fs::path& whole) {
  try {
    return TensorFiles::from_index(index);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found || whole.empty()) {
      throw;
    }
    throw Error(error.code(), error.place(), error.message(),
                "get the shards, or remove " + index.filename().string() +
                    " if " + whole.filename().string() + " has the weights");
  }
}

/// The files of one variant.
std::optional<Weights> find_weights(const fs::path& folder,
                                    const WeightNames& names,
                                    const std::string& variant) {
  const std::string dotted = variant.empty() ? variant : "." + variant;
  const std::string stem = names.stem;
  const std::string safe = stem + ".safetensors";
  fs::path whole = folder / (stem + dotted + ".safetensors");
  whole = is_there(whole) ? whole : fs::path();
  fs::path index;
  // Of a variant: as both libraries write it; as older diffusers did; as in
  // checkpoints that were sharded by hand.
  for (const std::string& name :
       {safe + ".index" + dotted + ".json", safe + dotted + ".index.json",
        stem + dotted + ".safetensors.index.json"}) {
    if (index.empty() && is_there(folder / name)) {
      index = folder / name;
    }
  }
  if (!index.empty() && (names.shards_first || whole.empty())) {
    return Weights{open_shards(index, whole), variant, whole};
  }
  if (!whole.empty()) {
    return Weights{TensorFiles({whole}), variant, index};
  }
  return std::nullopt;
}

Weights open_weights(const fs::path& folder, const WeightNames& names,
                     const ConversionCommand& command) {
  for (const char* variant : {"", "fp16", "bf16"}) {
    if (auto weights = find_weights(folder, names, variant)) {
      return std::move(*weights);
    }
  }
  throw why_no_weights(folder, names.stem, command);
}

void read_class_names(const Json& index, Checkpoint& checkpoint) {
  for (const auto& [key, names] : index.strings("id2label")) {
    std::int64_t id = 0;
    const auto [end, error] =
        std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      throw Error(
          Errc::corrupt_file, index.place(),
          "id2label: got key " + in_quotes(key) + ", expected a class id",
          "correct this file");
    }
    checkpoint.class_names[id] = names;
    for (std::size_t begin = 0; begin <= names.size();) {
      const auto comma = std::min(names.find(',', begin), names.size());
      const std::string name(
          trimmed(std::string_view(names).substr(begin, comma - begin)));
      if (!name.empty()) {
        checkpoint.class_ids[name].insert(id);
      }
      begin = comma + 1;
    }
  }
}

Component open_part(const fs::path& folder, const WeightNames& names,
                    const ConversionCommand& command) {
  Json config = Json::read_file(folder / "config.json");
  std::string class_name = config.string("_class_name", "");
  Weights weights = open_weights(folder, names, command);
  return {.folder = folder,
          .class_name = std::move(class_name),
          .config = std::move(config),
          .weights = std::move(weights.files),
          .variant = std::move(weights.variant),
          .passed_over = std::move(weights.passed_over)};
}

}  // namespace

std::uint64_t Checkpoint::stored_bytes() const noexcept {
  return denoiser.weights.data_bytes() + (vae ? vae->weights.data_bytes() : 0);
}

fs::path Checkpoint::index_path() const { return folder / "model_index.json"; }

Component open_component(const fs::path& folder) {
  return open_part(folder, kDiffusers, {kConverter, folder});
}

namespace {

/// diffusers takes the names of its classes for Flax for those of PyTorch.
std::string without_flax(std::string class_name) {
  constexpr std::string_view kFlax = "Flax";
  return class_name.starts_with(kFlax) ? class_name.substr(kFlax.size())
                                       : class_name;
}

/// What the index says of the parts that were opened.
void read_component_classes(const Json& index, Checkpoint& checkpoint) {
  const auto name_of = [&](std::string_view key) {
    return without_flax(index.component_class(key));
  };
  if (checkpoint.denoiser.folder != checkpoint.folder) {
    checkpoint.denoiser.index_class =
        name_of(checkpoint.denoiser.folder.filename().string());
  }
  if (checkpoint.vae) {
    checkpoint.vae->index_class = name_of("vae");
  }
  checkpoint.scheduler_class = name_of("scheduler");
}

/// Pipelines differ in what they take of an autoencoder's configuration.
void leave_out_latent_keys(const std::string& pipeline_class, Component& vae) {
  const PromptPipeline* pipeline = find_prompt_pipeline(pipeline_class);
  for (const std::string_view key : kLatentKeys) {
    const bool counts = pipeline != nullptr &&
                        std::ranges::count(pipeline->latent_keys, key) > 0;
    if (!counts && vae.config.has(key)) {
      vae.config = vae.config.without(key);
      vae.ignored_keys.emplace_back(key);
    }
  }
}

/// The text encoders that the pipeline has and that are in the folder.
void open_text_encoders(const Json& index, const ConversionCommand& command,
                        Checkpoint& checkpoint) {
  const PromptPipeline* pipeline =
      find_prompt_pipeline(checkpoint.pipeline_class);
  if (pipeline == nullptr) {
    return;
  }
  checkpoint.lacks_first_encoder =
      pipeline->without_first != nullptr &&
      index.component_class(pipeline->encoders[0].encoder).empty() &&
      !index.component_class(pipeline->encoders[1].encoder).empty();
  for (const PromptEncoder& part : pipeline->encoders) {
    const fs::path folder = checkpoint.folder / part.encoder;
    std::string class_name = index.component_class(part.encoder);
    // [null, null] says that the pipeline was saved without it.
    if (class_name.empty() || !is_folder(folder)) {
      continue;
    }
    try {
      Component encoder = open_part(folder, kTransformers, command);
      encoder.class_name = std::move(class_name);
      checkpoint.text_encoders.emplace(
          part.encoder, std::make_shared<const Component>(std::move(encoder)));
    } catch (const Error& error) {
      if (error.code() != Errc::not_found &&
          error.code() != Errc::unsupported) {
        throw;
      }
      checkpoint.unusable_encoders.emplace(part.encoder, error);
    }
  }
}

/// The folder of the network: the subfolder "transformer" or "unet" of a
/// pipeline, or `folder` itself.
fs::path denoiser_folder(const fs::path& folder) {
  for (const char* name : {"transformer", "unet"}) {
    if (is_folder(folder / name)) {
      return folder / name;
    }
  }
  return folder;
}

/// A folder of another pipeline is called that, not one without weights.
Component open_denoiser(const fs::path& folder,
                        const ConversionCommand& command) {
  try {
    return open_part(folder, kDiffusers, command);
  } catch (const Error& error) {
    if (error.code() == Errc::not_found &&
        !other_pipeline(command.folder).empty()) {
      throw why_unusable(command);
    }
    throw;
  }
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& folder, const fs::path& converter) {
  const ConversionCommand command{converter, folder};
  if (!is_folder(folder)) {
    throw why_unusable(command);
  }
  const fs::path inner = denoiser_folder(folder);
  if (inner == folder && !is_there(folder / "config.json")) {
    throw why_unusable(command);
  }
  Checkpoint checkpoint{.folder = folder,
                        .pipeline_class = {},
                        .denoiser = open_denoiser(inner, command),
                        .vae = {},
                        .has_safety_checker = false,
                        .zeros_for_no_negative = true,
                        .text_encoders = {},
                        .unusable_encoders = {},
                        .scheduler_config = {},
                        .scheduler_class = {},
                        .class_ids = {},
                        .class_names = {}};
  if (is_folder(folder / "vae")) {
    checkpoint.vae = open_part(folder / "vae", kDiffusers, command);
  }
  if (const auto path = checkpoint.index_path(); is_there(path)) {
    const Json index = Json::read_file(path);
    checkpoint.pipeline_class = index.string("_class_name", "");
    checkpoint.has_safety_checker =
        !index.component_class("safety_checker").empty();
    checkpoint.zeros_for_no_negative =
        index.boolean("force_zeros_for_empty_prompt", true);
    checkpoint.wants_score = index.boolean("requires_aesthetics_score", false);
    read_class_names(index, checkpoint);
    read_component_classes(index, checkpoint);
    if (checkpoint.vae && !checkpoint.pipeline_class.empty()) {
      leave_out_latent_keys(checkpoint.pipeline_class, *checkpoint.vae);
    }
    open_text_encoders(index, command, checkpoint);
  }
  if (const auto path = folder / "scheduler" / "scheduler_config.json";
      is_there(path)) {
    checkpoint.scheduler_config = read_file(path, kLargestConfig);
    // An empty text means "no file" to callers.
    require(!checkpoint.scheduler_config.empty(), Errc::corrupt_file,
            path.string(), "the file is empty, expected a JSON object",
            "download it again, or remove it: then the schedule is DDIM's "
            "default");
  }
  return checkpoint;
}

}  // namespace troupe::models
