#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "models/description.h"
#include "samplers/schedule.h"

namespace troupe::actors {

/// Path of the scheduler's file, whether it is there or not.
[[nodiscard]] std::string scheduler_path(const models::Checkpoint& checkpoint);

/// What the user should know about the folder's scheduler: that there is none,
/// or keys that diffusers does not have. Otherwise empty.
[[nodiscard]] std::vector<std::string> scheduler_notes(
    const models::Checkpoint& checkpoint);

/// The same about the networks' config.json files and weights.
[[nodiscard]] std::vector<std::string> network_notes(
    const models::Checkpoint& checkpoint,
    const models::DenoiserDescription& denoiser);

/// What is unusual about this sampler for a model with this scheduler file, or
/// what was guessed without such a file.
[[nodiscard]] std::vector<std::string> model_notes(
    const config::SamplerConfig& sampler, std::string_view scheduler_config,
    std::string_view place, const samplers::ScheduleOptions& options);

/// Refuses a list of --sigmas that lies wholly above the levels the model was
/// trained with: the result would be noise. (A list that only begins there
/// makes pictures if it is fine enough, even from 20 times the highest level.)
/// Errors: Errc::invalid_argument.
void check_lists(const config::SamplerConfig& sampler,
                 const samplers::Schedule& schedule);

/// What was added to the lists that the user gave for `schedule`, and levels
/// outside those that the model was trained with.
[[nodiscard]] std::vector<std::string> list_notes(
    const config::SamplerConfig& sampler, const samplers::Schedule& schedule);

/// Adds a note, unless it is there already.
void add_note(std::vector<std::string>& notes, const std::string& note);

/// Says each as a warning.
void print_notes(const std::vector<std::string>& notes);

}  // namespace troupe::actors
