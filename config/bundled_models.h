#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// A text encoder of a bundled pipeline.
struct BundledEncoder {
  std::string_view name;        ///< of its folder in a checkpoint
  std::string_view class_name;  ///< as model_index.json says it
  std::string_view config;      ///< config.json
  std::string_view tokenizer;   ///< name of a bundled tokenizer
};

/// A well-known model's configuration files, for runs with random weights:
/// speed and memory on your hardware without a download.
struct BundledModel {
  std::string_view name;
  std::string_view description;
  std::string denoiser;        ///< config.json
  std::string_view vae;        ///< config.json; empty: pixel space
  std::string_view scheduler;  ///< scheduler_config.json
  /// `_class_name` of model_index.json; empty where it takes no prompts.
  std::string_view pipeline = {};
  std::vector<BundledEncoder> encoders = {};
};

[[nodiscard]] std::span<const BundledModel> bundled_models();

/// Errors: Errc::not_found with the nearest name and the list.
[[nodiscard]] const BundledModel& find_bundled_model(const std::string& name);

}  // namespace troupe::config
