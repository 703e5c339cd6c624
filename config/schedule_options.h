#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "samplers/options.h"

namespace troupe::config {

/// The sampler a job runs: the checkpoint's scheduler_config.json (or DDIM's
/// defaults without one), another solver over its noise schedule if one was
/// named, then every option the user set. `pipeline` is the class of the
/// checkpoint's pipeline, which may set keys of the scheduler; empty: none.
/// Errors: those of parse_solver, parse_scheduler_config, apply and
/// check_prediction.
[[nodiscard]] samplers::ScheduleOptions schedule_options(
    const SamplerConfig& sampler, std::string_view scheduler_config,
    std::string_view place, std::string_view pipeline);

/// Sets what the user set and leaves the rest alone (the base is a recipe's).
/// Errors: Errc::invalid_argument naming the flag, for what the solver would
/// drop (--eta with euler) and what contradicts its name (--order 2 with
/// dpm++3m). What a checkpoint's file says beside the point is no error, as in
/// diffusers.
void apply(const SamplerConfig& sampler, samplers::ScheduleOptions& options);

/// An option that stands for a key of a schedule's file.
struct SamplerField {
  std::string_view option;        ///< its row in the option table
  std::vector<std::string> keys;  ///< in scheduler_config.json
  /// Puts what the user said, if anything, over the options.
  std::function<void(const SamplerConfig&, samplers::ScheduleOptions&)> apply;
  /// Says what the options say.
  std::function<void(const samplers::ScheduleOptions&, SamplerConfig&)> say;
  /// A value that every solver takes: it turns the option off.
  std::string_view off = {};
};

[[nodiscard]] std::span<const SamplerField> sampler_fields();

/// "dpm++2m karras": how people name what the options describe.
[[nodiscard]] std::string solver_label(
    const samplers::ScheduleOptions& options);

}  // namespace troupe::config
