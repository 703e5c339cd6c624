#pragma once

#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

/// A well-known model's configuration files, for runs with random weights:
/// speed and memory on your hardware without a download.
struct BundledModel {
  std::string_view name;
  std::string_view description;
  std::string transformer;     ///< config.json
  std::string_view vae;        ///< config.json; empty: pixel space
  std::string_view scheduler;  ///< scheduler_config.json
};

[[nodiscard]] std::span<const BundledModel> bundled_models();

/// Errors: Errc::not_found with the nearest name and the list.
[[nodiscard]] const BundledModel& find_bundled_model(const std::string& name);

}  // namespace troupe::config
