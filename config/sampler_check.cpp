#include "config/sampler_check.h"

#include <array>
#include <string>
#include <string_view>

#include "config/enum_names.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::ScheduleOptions;
using samplers::SigmaSpacing;
using samplers::Solver;

/// In the order of the enum, as --sampler takes them.
constexpr std::array<std::string_view, 8> kNames = {
    "ddim", "ddpm", "dpm++", "euler", "euler_a", "heun", "flow", "unipc"};

constexpr unsigned bit(Solver solver) {
  return 1U << static_cast<unsigned>(solver);
}
constexpr unsigned kMulti = bit(Solver::dpmpp) | bit(Solver::unipc);
constexpr unsigned kFlow = bit(Solver::flow_euler);
constexpr unsigned kBetas = ~kFlow & 0xffU;
constexpr unsigned kSpaced =
    bit(Solver::euler) | bit(Solver::heun) | kMulti | kFlow;
constexpr unsigned kClipped =
    bit(Solver::ddim) | bit(Solver::ddpm) | bit(Solver::heun);

std::string names_in(unsigned solvers) {
  std::string names;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if ((solvers >> i & 1U) != 0) {
      names.append(names.empty() ? "" : ", ").append(kNames[i]);
    }
  }
  return names;
}

struct Flag {
  const char* name;
  bool said;
  unsigned takers;
};

void check(const Flag& flag, Solver solver) {
  if (flag.said && (flag.takers & bit(solver)) == 0) {
    throw Error(Errc::invalid_argument, flag.name,
                "this solver has no use for it: got " +
                    std::string(kNames.at(static_cast<std::size_t>(solver))) +
                    ", expected one of " + names_in(flag.takers),
                "leave it out, or choose another --sampler");
  }
}

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
  const unsigned shifted = kFlow | (options.use_flow_sigmas ? kMulti : 0U);
  for (const Flag& flag : {
           Flag{"--eta", s.eta.has_value(), bit(Solver::ddim)},
           Flag{"--order", s.solver_order.has_value(), kMulti},
           Flag{"--variance-type", s.variance_type.has_value(),
                bit(Solver::ddpm)},
           Flag{"--clip-sample", s.clip_sample.has_value(), kClipped},
           Flag{"--timestep-spacing", s.timestep_spacing.has_value(), kBetas},
           Flag{"--sigma-spacing", is_spaced, kSpaced},
           Flag{"--final-sigmas-type", s.final_sigma_zero.has_value(),
                bit(Solver::euler) | kMulti},
           Flag{"--beta-schedule", s.beta_schedule.has_value(), kBetas},
           Flag{"--beta-start", s.beta_start.has_value(), kBetas},
           Flag{"--beta-end", s.beta_end.has_value(), kBetas},
           Flag{"--prediction-type", s.prediction_type && !is_flow, kBetas},
           Flag{"--shift", s.shift.has_value(), shifted},
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
  if (choice.sigma_spacing && (kSpaced & bit(choice.solver)) == 0) {
    throw Error(Errc::invalid_argument, "--sampler",
                "this solver has no " + name_of(*choice.sigma_spacing) +
                    " sigmas: got '" + s.name + "', expected one of " +
                    names_in(kSpaced) + " before that word",
                "leave the word out");
  }
}

}  // namespace troupe::config
