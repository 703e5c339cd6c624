#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "samplers/options.h"

namespace troupe::config {

/// A solver as users name it: the rule, and what the name says beside it
/// ("dpm++2m-sde karras" is order 2 of sde-dpmsolver++ over Karras sigmas;
/// dpmsolver and sde-dpmsolver end at sigma_min, because they cannot at 0).
struct SolverChoice : samplers::SolverSpelling {
  samplers::Solver solver = samplers::Solver::ddim;
  std::optional<samplers::SigmaSpacing> sigma_spacing;
};

/// Our names, those of diffusers' classes and the field's spellings: ddim,
/// ddpm, pndm, plms, euler, euler_a, heun, flow, unipc, dpm++2m, dpmpp_3m_sde,
/// DPMSolverMultistepScheduler, "DPM++ 2M Karras". Case, spaces, '-' and '_' do
/// not matter.
/// Errors, at --sampler: Errc::unsupported for a known scheduler that Troupe
/// has not, Errc::invalid_argument with the nearest name for anything else.
[[nodiscard]] SolverChoice parse_solver(
    std::string_view name,
    samplers::SolverTable table = samplers::solver_table());

/// The short names of all solvers, for help texts.
[[nodiscard]] std::vector<std::string> solver_names(
    samplers::SolverTable table = samplers::solver_table());

/// Sets what the choice says and leaves the rest alone.
void apply(const SolverChoice& choice, samplers::ScheduleOptions& options);

/// Refuses the class of a scheduler that Troupe has not. `key` of the file
/// `place` is where it stands.
/// Errors: Errc::unsupported, which names --sampler.
void check_scheduler_class(std::string_view class_name, std::string_view key,
                           std::string_view place);

/// Reads the text of a scheduler_config.json. Missing and null keys take the
/// default of the class; keys of other classes are ignored, as diffusers does.
/// `place` names the file in messages. `solver` is another solver over the same
/// noise schedule, as diffusers' from_config: keys that its class does not have
/// are dropped. `overrides` is a JSON object whose keys have precedence over
/// the file's: pipeline_scheduler_keys.
/// Errors: Errc::corrupt_file (not JSON, wrong types, numbers out of bounds,
///         unknown values), Errc::unsupported (a class or value that Troupe has
///         not).
[[nodiscard]] samplers::ScheduleOptions parse_scheduler_config(
    std::string_view text, std::string_view place,
    const std::optional<SolverChoice>& solver = {},
    std::string_view overrides = "{}");

}  // namespace troupe::config
