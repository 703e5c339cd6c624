#include "models/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/text/prompt_pipeline.h"
#include "models/unusable_folder.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestConfig = std::size_t{16} << 20U;

/// What stands at `path`. Errors: Errc::io where the system does not let us
/// look, which is not the same as nothing being there.
fs::file_type type_at(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error && status.type() != fs::file_type::not_found) {
    throw Error(Errc::io, path.string(),
                "cannot look at it: " + error.message(),
                "ask for the right to read the checkpoint's folders, or change "
                "their permissions");
  }
  return status.type();
}

bool is_there(const fs::path& path) {
  return type_at(path) != fs::file_type::not_found;
}

bool is_folder(const fs::path& path) {
  return type_at(path) == fs::file_type::directory;
}

bool has_pickled_weights(const fs::path& folder) {
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const std::string extension = item.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" ||
        extension == ".ckpt") {
      return true;
    }
  }
  return false;
}

/// The text quoted as one word of a shell.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') ||
           std::string_view("/._-+=:@%,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) {
    return text;
  }
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

[[noreturn]] void refuse_pickles(const fs::path& folder,
                                 const fs::path& converter) {
  throw Error(Errc::unsupported, folder.string(),
              "only pickled weights (.bin, .pt), which could run any code",
              "run: " + shell_word(converter.string()) + " " +
                  shell_word(folder.string()));
}

/// The file or the index of one variant, as diffusers names them.
std::optional<TensorFiles> find_weights(const fs::path& folder,
                                        const std::string& stem,
                                        const std::string& variant) {
  const std::string dotted = variant.empty() ? variant : "." + variant;
  const fs::path single = folder / (stem + dotted + ".safetensors");
  if (is_there(single)) {
    return TensorFiles({single});
  }
  // The second spelling is that of checkpoints that were sharded by hand.
  for (const std::string& name :
       {stem + ".safetensors.index" + dotted + ".json",
        stem + dotted + ".safetensors.index.json"}) {
    if (is_there(folder / name)) {
      return TensorFiles::from_index(folder / name);
    }
  }
  return std::nullopt;
}

struct Weights {
  TensorFiles files;
  std::string variant;
};

Weights open_weights(const fs::path& folder, const fs::path& converter,
                     const std::string& stem) {
  for (const char* variant : {"", "fp16", "bf16"}) {
    if (auto files = find_weights(folder, stem, variant)) {
      return {std::move(*files), variant};
    }
  }
  if (has_pickled_weights(folder)) {
    refuse_pickles(folder, converter);
  }
  throw Error(Errc::not_found, folder.string(),
              "no weights: expected " + stem + ".safetensors",
              "give the folder of a diffusers checkpoint");
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

bool holds_pickled_denoiser(const fs::path& folder) {
  return !is_there(folder / "config.json") && has_pickled_weights(folder);
}

}  // namespace

std::uint64_t Checkpoint::stored_bytes() const noexcept {
  return denoiser.weights.data_bytes() + (vae ? vae->weights.data_bytes() : 0);
}

fs::path Checkpoint::index_path() const { return folder / "model_index.json"; }

Component open_component(const fs::path& folder, const fs::path& converter,
                         std::string_view stem) {
  Json config = Json::read_file(folder / "config.json");
  std::string class_name = config.string("_class_name", "");
  Weights weights = open_weights(folder, converter, std::string(stem));
  return {.folder = folder,
          .class_name = std::move(class_name),
          .config = std::move(config),
          .weights = std::move(weights.files),
          .variant = std::move(weights.variant)};
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

/// The text encoders that the pipeline has and that are in the folder.
void open_text_encoders(const Json& index, const fs::path& converter,
                        Checkpoint& checkpoint) {
  const PromptPipeline* pipeline =
      find_prompt_pipeline(checkpoint.pipeline_class);
  if (pipeline == nullptr) {
    return;
  }
  for (const PromptEncoder& part : pipeline->encoders) {
    const fs::path folder = checkpoint.folder / part.encoder;
    std::string class_name = index.component_class(part.encoder);
    // [null, null] says that the pipeline was saved without it.
    if (class_name.empty() || !is_folder(folder)) {
      continue;
    }
    try {
      Component encoder = open_component(folder, converter, "model");
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
Component open_denoiser(const fs::path& root, const fs::path& folder,
                        const fs::path& converter) {
  try {
    return open_component(folder, converter);
  } catch (const Error& error) {
    if (error.code() == Errc::not_found && !other_pipeline(root).empty()) {
      throw why_unusable(root);
    }
    throw;
  }
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& folder, const fs::path& converter) {
  if (!is_folder(folder)) {
    throw why_unusable(folder);
  }
  const fs::path inner = denoiser_folder(folder);
  const bool whole = inner != folder;
  if (!whole && holds_pickled_denoiser(folder)) {
    refuse_pickles(folder, converter);
  }
  if (!whole && !is_there(folder / "config.json")) {
    throw why_unusable(folder);
  }
  Checkpoint checkpoint{.folder = folder,
                        .pipeline_class = {},
                        .denoiser = open_denoiser(folder, inner, converter),
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
    checkpoint.vae = open_component(folder / "vae", converter);
  }
  if (const auto path = checkpoint.index_path(); is_there(path)) {
    const Json index = Json::read_file(path);
    checkpoint.pipeline_class = index.string("_class_name", "");
    checkpoint.has_safety_checker =
        !index.component_class("safety_checker").empty();
    checkpoint.zeros_for_no_negative =
        index.boolean("force_zeros_for_empty_prompt", true);
    read_class_names(index, checkpoint);
    read_component_classes(index, checkpoint);
    open_text_encoders(index, converter, checkpoint);
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
