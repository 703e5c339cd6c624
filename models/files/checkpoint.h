#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/error.h"
#include "models/files/json.h"
#include "models/files/safetensors.h"

namespace troupe::models {

/// The script that turns pickled weights into safetensors.
inline constexpr const char* kConverter = "convert_checkpoint.py";

/// One component of a checkpoint: its configuration and its tensors.
struct Component {
  std::filesystem::path folder;
  std::string class_name;  ///< "_class_name" of config.json
  Json config;
  TensorFiles weights;
  /// Variant of the weights that were opened, such as "fp16"; empty: none.
  std::string variant;
  /// A file of the same weights that the reader left aside; empty: none.
  std::filesystem::path passed_over = {};
  /// Keys that are left out of `config`, because the pipeline ignores them.
  std::vector<std::string> ignored_keys = {};
  /// The class that model_index.json names, which diffusers makes of the files;
  /// empty: it names none.
  std::string index_class = {};
};

/// An opened folder in Hugging Face diffusers layout. Headers and
/// configurations are read and checked; weights are not loaded.
struct Checkpoint {
  std::filesystem::path folder;
  std::string pipeline_class;  ///< of model_index.json; may be empty
  Component denoiser;
  std::optional<Component> vae;     ///< none: a pixel-space model
  bool has_safety_checker = false;  ///< of model_index.json; it is not opened
  /// force_zeros_for_empty_prompt of model_index.json: a missing negative
  /// prompt is what PromptPipeline::no_negative makes, not an empty text.
  bool zeros_for_no_negative = true;
  /// The text encoders in the folder, by the names of their folders, with the
  /// classes of model_index.json.
  std::map<std::string, std::shared_ptr<const Component>> text_encoders;
  /// Errors of encoders that cannot be opened: weights are missing, or pickled.
  /// A job with encoded prompts does not need the encoders.
  std::map<std::string, Error> unusable_encoders;
  /// The pipeline was saved without its first text encoder, and with the
  /// second.
  bool lacks_first_encoder = false;
  /// requires_aesthetics_score of model_index.json.
  bool wants_score = false;
  std::string scheduler_config;  ///< raw JSON text; empty: no scheduler
  /// Its class by model_index.json; empty: it names none.
  std::string scheduler_class;
  /// Of model_index.json, for messages.
  [[nodiscard]] std::filesystem::path index_path() const;
  /// Ids by class name. A label with commas ("tench, Tinca tinca") gives one
  /// entry for each synonym. A name may belong to several classes (ImageNet's
  /// "crane" is a bird and a machine).
  std::map<std::string, std::set<std::int64_t>> class_ids;
  /// Full names by class id.
  std::map<std::int64_t, std::string> class_names;

  /// Bytes of the network's and the VAE's tensors as stored.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept;
};

/// Opens `folder`, which holds model_index.json and the network's folder
/// (transformer/ or unet/), or is itself a network's folder.
/// Errors: Errc::not_found; Errc::io for what may not be read;
/// Errc::corrupt_file; Errc::unsupported when there are only pickled weights
/// (the hint is the command that converts them, as one line for a shell).
/// `converter` is the path of convert_checkpoint.py, for that command.
[[nodiscard]] Checkpoint open_checkpoint(
    const std::filesystem::path& folder,
    const std::filesystem::path& converter = kConverter);

/// Opens one component folder (config.json and its weights). If the plain
/// weights are missing, it opens their variant fp16, or else bf16.
/// Errors: as open_checkpoint.
[[nodiscard]] Component open_component(const std::filesystem::path& folder);

}  // namespace troupe::models
