#include "config/schedule_options.h"

#include "config/enum_names.h"
#include "config/model_prediction.h"
#include "config/sampler_check.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using Said = SamplerConfig;
using samplers::ScheduleOptions;

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

}  // namespace

ScheduleOptions schedule_options(const SamplerConfig& sampler,
                                 std::string_view scheduler_config,
                                 std::string_view place) {
  std::optional<SolverChoice> solver;
  if (!sampler.name.empty()) {
    try {
      solver = parse_solver(sampler.name);
    } catch (const Error& error) {
      // The same message under the flag's name.
      const std::string what = error.what();
      throw Error(error.code(), "--sampler",
                  what.substr(error.place().size() + 3), error.hint());
    }
  }
  ScheduleOptions options;
  if (!scheduler_config.empty()) {
    options = parse_scheduler_config(scheduler_config, place, solver);
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
