#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "models/checkpoint.h"
#include "samplers/schedule.h"

namespace troupe::actors {

/// Path of the scheduler's file, whether it is there or not.
[[nodiscard]] std::string scheduler_path(const models::Checkpoint& checkpoint);

/// What the user should know about the folder's scheduler: that there is none,
/// or keys that diffusers does not have. Otherwise empty.
[[nodiscard]] std::vector<std::string> scheduler_notes(
    const models::Checkpoint& checkpoint);

/// The same about the networks' config.json files.
[[nodiscard]] std::vector<std::string> network_notes(
    const models::Checkpoint& checkpoint);

/// What was added to the lists that the user gave for `schedule`.
[[nodiscard]] std::vector<std::string> list_notes(
    const config::SamplerConfig& sampler, const samplers::Schedule& schedule);

/// Says each as a warning.
void print_notes(const std::vector<std::string>& notes);

}  // namespace troupe::actors
