#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/json.h"
#include "models/safetensors.h"

namespace troupe::models {

/// The script that turns pickled weights into safetensors.
inline constexpr const char* kConverter = "convert_checkpoint.py";

/// One component of a checkpoint: its configuration and its tensors.
struct Component {
  std::filesystem::path folder;
  std::string class_name;  ///< "_class_name" of config.json
  Json config;
  TensorFiles weights;
  /// Of the weights that were opened ("fp16"); empty: the plain ones.
  std::string variant;
};

/// A folder in Hugging Face diffusers layout, opened: headers and
/// configurations are read and checked, weights are not loaded yet.
struct Checkpoint {
  std::filesystem::path folder;
  std::string pipeline_class;  ///< of model_index.json; may be empty
  Component transformer;
  std::optional<Component> vae;  ///< none: a pixel-space model
  std::string scheduler_config;  ///< raw JSON text; empty: no scheduler
  /// Class names to ids; a name listed with commas ("tench, Tinca tinca")
  /// gives one entry per synonym. A name may belong to several classes
  /// (ImageNet's "crane" is a bird and a machine).
  std::map<std::string, std::set<std::int64_t>> class_ids;
  /// Class ids to their full names.
  std::map<std::int64_t, std::string> class_names;

  /// Bytes of the transformer's and the VAE's tensors as stored.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept;
};

/// Opens `folder`, which holds model_index.json and transformer/, or is itself
/// a transformer's folder.
/// Errors: Errc::not_found; Errc::io for what may not be read;
/// Errc::corrupt_file; Errc::unsupported when there are only pickled weights
/// (the hint is the command that converts them, one line for a shell).
/// `converter` is where convert_checkpoint.py lies.
[[nodiscard]] Checkpoint open_checkpoint(
    const std::filesystem::path& folder,
    const std::filesystem::path& converter = kConverter);

/// Opens one component folder (config.json and its weights). Where only a
/// variant of the weights is there, fp16 or else bf16, it is opened.
[[nodiscard]] Component open_component(
    const std::filesystem::path& folder,
    const std::filesystem::path& converter = kConverter);

}  // namespace troupe::models
