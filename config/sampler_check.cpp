#include "config/sampler_check.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/enum_names.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::ScheduleOptions;
using samplers::SigmaSpacing;
using samplers::Solver;

std::string shown(Solver solver) {
  return std::string(solver->shown_names.front());
}

/// The solvers that take a key of scheduler_config.json.
std::string names_with(std::span<const std::string_view> keys) {
  std::string names;
  for (const Solver solver : samplers::solver_table()) {
    const bool has_one = std::ranges::any_of(
        keys, [&](std::string_view key) { return solver->has_key(key); });
    if (has_one) {
      names += (names.empty() ? "" : ", ") + shown(solver);
    }
  }
  return names;
}

/// A flag that says what one of the keys says.
struct Flag {
  const char* name;
  bool said;
  std::vector<std::string_view> keys;
};

void check(const Flag& flag, Solver solver) {
  const bool has_one = std::ranges::any_of(
      flag.keys, [&](std::string_view key) { return solver->has_key(key); });
  if (flag.said && !has_one) {
    throw Error(Errc::invalid_argument, flag.name,
                "this solver has no use for it: got " + shown(solver) +
                    ", expected one of " + names_with(flag.keys),
                "leave it out, or choose another --sampler");
  }
}

// A class has all spacings of σ or none.
constexpr std::string_view kSpacingKey = "use_karras_sigmas";

void check_lists(const SamplerConfig& s, const ScheduleOptions& options) {
  if (s.final_sigma_zero == false && !options.sigmas.empty()) {
    throw Error(Errc::invalid_argument, "--final-sigmas-type",
                "a list of noise levels ends at 0: got sigma_min beside "
                "--sigmas, expected zero",
                "leave one of them out");
  }
}

}  // namespace

void check_sampler(const SamplerConfig& s, const ScheduleOptions& options) {
  const bool is_flow =
      s.prediction_type == samplers::PredictionType::flow_prediction;
  const bool is_spaced =
      s.sigma_spacing && *s.sigma_spacing != SigmaSpacing::none;
  std::vector<std::string_view> shifts = {"shift"};
  if (options.use_flow_sigmas) {
    shifts.emplace_back("flow_shift");
  }
  for (const Flag& flag : {
           Flag{"--eta", s.eta.has_value(), {"eta"}},
           Flag{"--order", s.solver_order.has_value(), {"solver_order"}},
           Flag{"--variance-type",
                s.variance_type.has_value(),
                {"variance_type"}},
           Flag{"--clip-sample", s.clip_sample.has_value(), {"clip_sample"}},
           Flag{"--timestep-spacing",
                s.timestep_spacing.has_value(),
                {"timestep_spacing"}},
           Flag{"--sigma-spacing", is_spaced, {kSpacingKey}},
           Flag{"--final-sigmas-type",
                s.final_sigma_zero.has_value(),
                {"final_sigmas_type"}},
           Flag{"--beta-schedule",
                s.beta_schedule.has_value(),
                {"beta_schedule"}},
           Flag{"--beta-start", s.beta_start.has_value(), {"beta_start"}},
           Flag{"--beta-end", s.beta_end.has_value(), {"beta_end"}},
           Flag{"--prediction-type",
                s.prediction_type && !is_flow,
                {"prediction_type"}},
           Flag{"--shift", s.shift.has_value(), shifts},
       }) {
    check(flag, options.solver);
  }
  check_lists(s, options);
}

void check_name(const SamplerConfig& s, const SolverChoice& choice) {
  if (choice.order && s.solver_order && *choice.order != *s.solver_order) {
    throw Error(Errc::invalid_argument, "--order",
                "--sampler " + s.name + " is of order " +
                    std::to_string(*choice.order) + ": got " +
                    std::to_string(*s.solver_order),
                "leave --order out, or use --sampler dpm++");
  }
  if (choice.sigma_spacing && s.sigma_spacing &&
      *choice.sigma_spacing != *s.sigma_spacing) {
    throw Error(Errc::invalid_argument, "--sigma-spacing",
                "--sampler " + s.name + " says " +
                    name_of(*choice.sigma_spacing) + ": got " +
                    name_of(*s.sigma_spacing),
                "leave one of them out");
  }
  if (choice.sigma_spacing && !choice.solver->has_key(kSpacingKey)) {
    throw Error(Errc::invalid_argument, "--sampler",
                "this solver has no " + name_of(*choice.sigma_spacing) +
                    " sigmas: got '" + s.name + "', expected one of " +
                    names_with({&kSpacingKey, 1}) + " before that word",
                "leave the word out");
  }
}

}  // namespace troupe::config
