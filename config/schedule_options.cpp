#include "config/schedule_options.h"

#include "config/enum_names.h"
#include "config/model_prediction.h"
#include "config/sampler_check.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

template <typename T, typename U>
void set(const std::optional<T>& from, U& to) {
  if (from) {
    to = *from;
  }
}

}  // namespace

samplers::ScheduleOptions schedule_options(const SamplerConfig& sampler,
                                           std::string_view scheduler_config,
                                           std::string_view place) {
  SchedulerOverrides overrides;
  if (!sampler.name.empty()) {
    try {
      overrides.solver = parse_solver(sampler.name);
    } catch (const Error& error) {
      // The same message under the flag's name.
      const std::string what = error.what();
      throw Error(error.code(), "--sampler",
                  what.substr(error.place().size() + 3), error.hint());
    }
  }
  samplers::ScheduleOptions options;
  if (!scheduler_config.empty()) {
    options = parse_scheduler_config(scheduler_config, place, overrides);
  } else if (overrides.solver) {
    apply(*overrides.solver, options);
  }
  const ModelPrediction model = model_prediction(scheduler_config, place);
  take_flow_path(sampler, model, options);
  apply(sampler, options);
  check_prediction(sampler, model, place, options);
  return options;
}

void apply(const SamplerConfig& sampler, samplers::ScheduleOptions& options) {
  if (sampler.steps) {  // a list would decide the number of steps
    options.sigmas.clear();
    options.timesteps.clear();
  }
  set(sampler.steps, options.num_inference_steps);
  set(sampler.eta, options.eta);
  set(sampler.solver_order, options.solver_order);
  set(sampler.timestep_spacing, options.timestep_spacing);
  set(sampler.sigma_spacing, options.sigma_spacing);
  set(sampler.final_sigma_zero, options.final_sigma_zero);
  set(sampler.prediction_type, options.prediction_type);
  set(sampler.beta_schedule, options.beta_schedule);
  set(sampler.beta_start, options.beta_start);
  set(sampler.beta_end, options.beta_end);
  set(sampler.num_train_timesteps, options.num_train_timesteps);
  set(sampler.shift, options.shift);
  set(sampler.shift, options.flow_shift);
  set(sampler.variance_type, options.variance_type);
  set(sampler.clip_sample, options.clip_sample);
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

std::string solver_label(const samplers::ScheduleOptions& options) {
  const auto labelled = options.solver->label;
  std::string label = labelled != nullptr ? labelled(options)
                                          : std::string(options.solver->name);
  if (options.sigma_spacing != samplers::SigmaSpacing::none) {
    label += " " + name_of(options.sigma_spacing);
  }
  return label;
}

}  // namespace troupe::config
