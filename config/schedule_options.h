#pragma once

#include <string>
#include <string_view>

#include "config/config.h"
#include "samplers/options.h"

namespace troupe::config {

/// The sampler a job runs: the checkpoint's scheduler_config.json (or DDIM's
/// defaults without one), another solver over its noise schedule if one was
/// named, then every option the user set.
/// Errors: those of parse_solver, parse_scheduler_config, check_sampler and
/// check_prediction.
[[nodiscard]] samplers::ScheduleOptions schedule_options(
    const SamplerConfig& sampler, std::string_view scheduler_config,
    std::string_view place);

/// Sets what the user set and leaves the rest alone (the base is a recipe's).
/// Errors: those of check_sampler.
void apply(const SamplerConfig& sampler, samplers::ScheduleOptions& options);

/// "dpm++2m karras": how people name what the options describe.
[[nodiscard]] std::string solver_label(
    const samplers::ScheduleOptions& options);

}  // namespace troupe::config
