#include "config/schedule_options.h"

#include <algorithm>

#include "config/enum_names.h"
#include "config/model_prediction.h"
#include "config/option_table.h"
#include "config/sampling_defaults.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using Said = SamplerConfig;
using samplers::ScheduleOptions;
using samplers::Solver;

/// A field that has one place on either side.
template <typename T, typename U>
SamplerField row(std::string_view option, std::vector<std::string> keys,
                 std::optional<T> Said::*said, U ScheduleOptions::*in_force,
                 std::string_view off = {}) {
  return {
      option, std::move(keys),
      [=](const Said& from, ScheduleOptions& to) {
        if (from.*said) {
          to.*in_force = *(from.*said);
        }
      },
      [=](const ScheduleOptions& from, Said& to) { to.*said = from.*in_force; },
      off};
}

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

/// Refuses what the user said and the solver of `options` would drop.
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
  if (s.final_sigma_zero == false && !options.sigmas.empty()) {
    throw Error(Errc::invalid_argument, "--final-sigmas-type",
                "a list of noise levels ends at 0: got sigma_min beside "
                "--sigmas, expected zero",
                "leave one of them out");
  }
}

/// Refuses options that contradict the solver's name: "dpm++3m" is of order 3.
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

}  // namespace

ScheduleOptions schedule_options(const SamplerConfig& sampler,
                                 std::string_view scheduler_config,
                                 std::string_view place,
                                 std::string_view pipeline) {
  std::optional<SolverChoice> solver;
  if (!sampler.name.empty()) {
    solver = parse_solver(sampler.name);
  }
  ScheduleOptions options;
  if (!scheduler_config.empty()) {
    options = parse_scheduler_config(scheduler_config, place, solver,
                                     pipeline_scheduler_keys(pipeline));
  } else if (solver) {
    apply(*solver, options);
  }
  const ModelPrediction model = model_prediction(scheduler_config, place);
  take_flow_path(sampler, model, options);
  apply(sampler, options);
  check_prediction(sampler, model, place, options);
  return options;
}

std::span<const SamplerField> sampler_fields() {
  using O = ScheduleOptions;
  static const std::vector<SamplerField> kFields = {
      row("eta", {"eta"}, &Said::eta, &O::eta),
      row("order", {"solver_order"}, &Said::solver_order, &O::solver_order),
      row("variance-type", {"variance_type"}, &Said::variance_type,
          &O::variance_type),
      row("clip-sample", {"clip_sample"}, &Said::clip_sample, &O::clip_sample),
      row("timestep-spacing", {"timestep_spacing"}, &Said::timestep_spacing,
          &O::timestep_spacing),
      row("sigma-spacing",
          {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"},
          &Said::sigma_spacing, &O::sigma_spacing, "none"),
      row("final-sigmas-type", {"final_sigmas_type"}, &Said::final_sigma_zero,
          &O::final_sigma_zero),
      row("beta-schedule", {"beta_schedule"}, &Said::beta_schedule,
          &O::beta_schedule),
      row("beta-start", {"beta_start"}, &Said::beta_start, &O::beta_start),
      row("beta-end", {"beta_end"}, &Said::beta_end, &O::beta_end),
      row("prediction-type", {"prediction_type"}, &Said::prediction_type,
          &O::prediction_type, "flow_prediction"),
      {"shift",
       {"shift", "flow_shift"},
       [](const Said& from, O& to) {
         to.shift = from.shift.value_or(to.shift);
         to.flow_shift = from.shift.value_or(to.flow_shift);
       },
       [](const O& from, Said& to) {
         to.shift = from.use_flow_sigmas ? from.flow_shift : from.shift;
       }},
      row("train-steps", {"num_train_timesteps"}, &Said::num_train_timesteps,
          &O::num_train_timesteps),
  };
  return kFields;
}

void apply(const SamplerConfig& sampler, ScheduleOptions& options) {
  if (sampler.steps) {  // a list would decide the number of steps
    options.sigmas.clear();
    options.timesteps.clear();
  }
  options.num_inference_steps =
      sampler.steps.value_or(options.num_inference_steps);
  for (const SamplerField& field : sampler_fields()) {
    field.apply(sampler, options);
  }
  if (!sampler.sigmas.empty()) {
    options.sigmas = sampler.sigmas;
    options.timesteps.clear();
  }
  if (!sampler.timesteps.empty()) {
    options.timesteps = sampler.timesteps;
    options.sigmas.clear();
  }
  if (sampler.denoising_start) {
    options.denoising_start = sampler.denoising_start;
    if (*sampler.denoising_start == 0) {
      options.denoising_start.reset();
    }
  }
  if (sampler.denoising_end) {
    options.denoising_end = sampler.denoising_end;
    if (*sampler.denoising_end == 1) {
      options.denoising_end.reset();
    }
  }
  if (!sampler.name.empty()) {
    check_name(sampler, parse_solver(sampler.name));
  }
  check_sampler(sampler, options);
}

std::string solver_label(const ScheduleOptions& options) {
  const auto labelled = options.solver->label;
  std::string label = labelled != nullptr ? labelled(options)
                                          : std::string(options.solver->name);
  if (options.sigma_spacing != samplers::SigmaSpacing::none) {
    label += " " + name_of(options.sigma_spacing);
  }
  return label;
}

}  // namespace troupe::config
