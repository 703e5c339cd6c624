#include "config/sampler_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "config/enum_names.h"
#include "config/option_table.h"
#include "config/schedule_options.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::ScheduleOptions;
using samplers::Solver;

std::string shown(Solver solver) {
  return std::string(solver->shown_names.front());
}

bool has_one(Solver solver, const std::vector<std::string>& keys) {
  return std::ranges::any_of(
      keys, [&](const std::string& key) { return solver->has_key(key); });
}

/// The solvers that take a key of scheduler_config.json.
std::string names_with(const std::vector<std::string>& keys) {
  std::string names;
  for (const Solver solver : samplers::solver_table()) {
    if (has_one(solver, keys)) {
      names += (names.empty() ? "" : ", ") + shown(solver);
    }
  }
  return names;
}

// A class has all spacings of σ or none.
constexpr const char* kSpacingKey = "use_karras_sigmas";

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
  Config said;
  said.sampler = s;
  for (const SamplerField& field : sampler_fields()) {
    const std::string text = find_option(field.option)->get(said);
    std::vector<std::string> keys = field.keys;
    if (!options.use_flow_sigmas) {
      std::erase(keys, "flow_shift");
    }
    if (!text.empty() && text != field.off && !has_one(options.solver, keys)) {
      throw Error(Errc::invalid_argument, "--" + std::string(field.option),
                  "this solver has no use for it: got " +
                      shown(options.solver) + ", expected one of " +
                      names_with(keys),
                  "leave it out, or choose another --sampler");
    }
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
                    names_with({kSpacingKey}) + " before that word",
                "leave the word out");
  }
}

}  // namespace troupe::config
