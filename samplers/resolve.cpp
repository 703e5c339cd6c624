#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/error.h"
#include "samplers/numeric.h"
#include "samplers/points.h"

namespace troupe::samplers {
namespace {

constexpr auto refuse = refuse_option;

void check_option(std::string_view option, double value, double low,
                  double high) {
  if (!(value >= low && value <= high)) {
    refuse(option,
           "got " + to_text(value) + ", expected " + to_text(low) + " to " +
               to_text(high),
           "change the value");
  }
}

void check_descending(std::string_view option,
                      const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || values[i] < 0.0) {
      refuse(option,
             "got " + to_text(values[i]) + " at place " + std::to_string(i) +
                 ", expected finite numbers ≥ 0",
             "correct the list");
    }
    if (i > 0 && !(values[i] < values[i - 1])) {
      refuse(option,
             "got " + to_text(values[i]) + " after " + to_text(values[i - 1]) +
                 ", expected descending numbers",
             "sort the list from noisy to clean and drop repeated values");
    }
  }
}

void check_lists(const ScheduleOptions& o) {
  check_descending("sigmas", o.sigmas);
  check_descending("timesteps", o.timesteps);
  if (!o.sigmas.empty() && o.solver->levels == Levels::training_steps) {
    refuse("sigmas", "this solver runs over integer training steps",
           "give --timesteps, or choose euler, dpm++ or unipc");
  }
  const bool both = !o.sigmas.empty() && !o.timesteps.empty();
  if (both && o.solver->levels != Levels::flow) {
    refuse("sigmas", "got sigmas and timesteps, expected one of them",
           "leave one list out");
  }
  const bool respaced =
      o.sigma_spacing != SigmaSpacing::none || o.use_lu_lambdas;
  if (respaced && o.solver->levels != Levels::flow &&
      !(o.sigmas.empty() && o.timesteps.empty())) {
    refuse("sigma_spacing", "an explicit list leaves nothing to space",
           "leave out the list or the Karras, exponential, beta or lu spacing");
  }
  if (o.solver->is_multistep && o.use_flow_sigmas && !o.timesteps.empty()) {
    refuse("timesteps", "flow schedules of this solver are given as sigmas",
           "give --sigmas");
  }
  const double last_step = o.num_train_timesteps - 1;
  if (!o.timesteps.empty() && o.solver->levels != Levels::flow &&
      o.timesteps.front() > last_step) {
    refuse("timesteps",
           "got " + to_text(o.timesteps.front()) + ", expected at most " +
               std::to_string(o.num_train_timesteps - 1),
           "training steps count from 0");
  }
}

void check_betas(const ScheduleOptions& o) {
  if (!o.trained_betas.empty() &&
      o.trained_betas.size() !=
          static_cast<std::size_t>(o.num_train_timesteps)) {
    refuse("trained_betas",
           "got " + std::to_string(o.trained_betas.size()) +
               " values, expected num_train_timesteps = " +
               std::to_string(o.num_train_timesteps),
           "set num_train_timesteps to the number of betas");
  }
  for (const double beta : o.trained_betas) {
    check_option("trained_betas", beta, 0.0, 1.0);
  }
  check_option("beta_start", o.beta_start, 1e-12, 1.0);
  check_option("beta_end", o.beta_end, 1e-12, 1.0);
  if (o.rescale_betas_zero_snr && o.num_train_timesteps < 2) {
    refuse("rescale_betas_zero_snr", "needs at least two training steps", "");
  }
}

void check_prediction(const ScheduleOptions& o) {
  const bool flow = o.prediction_type == PredictionType::flow_prediction;
  if (o.solver->levels == Levels::flow && !flow) {
    refuse("prediction_type", "flow-match Euler integrates flow_prediction",
           "choose another solver for this model");
  }
  if (flow && o.solver->levels != Levels::flow && !o.solver->is_multistep) {
    refuse("prediction_type", "this solver has no flow_prediction",
           "use flow, dpm++ or unipc");
  }
  if (o.prediction_type == PredictionType::sample &&
      !o.solver->has_sample_prediction) {
    refuse("prediction_type", "this solver has no sample prediction",
           "use ddim, euler or dpm++");
  }
}

void check_flow(const ScheduleOptions& o) {
  if (o.use_dynamic_shifting && is_flow(o) && !o.mu) {
    refuse("mu", "dynamic shifting needs mu, got none",
           "set use_dynamic_shifting to false in scheduler_config.json");
  }
  if (o.use_flow_sigmas && o.solver->flow_points == nullptr) {
    refuse("use_flow_sigmas", "only dpm++ and unipc take flow sigmas",
           "use the flow solver");
  }
  const bool has_karras = o.solver->has_karras_flow_sigmas &&
                          o.sigma_spacing == SigmaSpacing::karras;
  if (o.use_flow_sigmas &&
      (o.use_lu_lambdas ||
       (o.sigma_spacing != SigmaSpacing::none && !has_karras))) {
    refuse("use_flow_sigmas", "does not go with another sigma spacing",
           "leave one of them out");
  }
  if (o.shift_terminal && !is_flow(o)) {
    refuse("shift_terminal", "only flow schedules have it", "");
  }
  if (o.shift_terminal) {
    check_option("shift_terminal", *o.shift_terminal, 0.0, 0.999999);
  }
  if (o.invert_sigmas && o.stochastic_sampling) {
    refuse("stochastic_sampling", "does not go with invert_sigmas", "");
  }
  check_option("shift", o.shift, 1e-6, 1e6);
  check_option("flow_shift", o.flow_shift, 1e-6, 1e6);
  if (o.mu) {
    check_option("mu", *o.mu, o.time_shift_linear ? 1e-6 : -50.0, 50.0);
  }
  if (is_flow(o) && !o.sigmas.empty() && o.sigmas.front() > 1.0) {
    refuse("sigmas",
           "got " + to_text(o.sigmas.front()) +
               ", expected at most 1 for a flow model",
           "flow sigmas run from 1 to 0");
  }
}

void check_steps(const ScheduleOptions& o) {
  if (o.num_inference_steps >= 1 &&
      o.num_inference_steps <= o.num_train_timesteps) {
    return;
  }
  const std::string trained = std::to_string(o.num_train_timesteps);
  refuse("num_inference_steps",
         "got " + std::to_string(o.num_inference_steps) + ", expected 1 to " +
             trained + ", because the model was trained with " + trained +
             " timesteps",
         o.sigmas.empty() ? "change --steps" : "shorten --sigmas");
}

/// Where the part of a run begins and ends that is made.
void check_part(const ScheduleOptions& o) {
  for (const auto& [name, share] :
       {std::pair("denoising_start", o.denoising_start),
        std::pair("denoising_end", o.denoising_end)}) {
    if (share && !(*share > 0.0 && *share < 1.0)) {
      refuse(name, "expected a number between 0 and 1", "");
    }
  }
  if (o.denoising_start && o.denoising_end &&
      !(*o.denoising_start < *o.denoising_end)) {
    refuse("denoising_start", "expected less than denoising_end", "");
  }
  if (o.invert_sigmas && (o.denoising_start || o.denoising_end)) {
    refuse(o.denoising_start ? "denoising_start" : "denoising_end",
           "does not go with invert_sigmas", "");
  }
  // The first steps of such solvers have more calls than the others.
  if (o.solver->extra_calls != nullptr &&
      (o.denoising_start || (o.denoising_end && !o.timesteps.empty()))) {
    refuse(
        o.denoising_start ? "denoising_start" : "denoising_end",
        std::string(o.solver->name) +
            (o.denoising_start ? " begins at the beginning"
                               : " goes through the whole list of timesteps"),
        "choose another --sampler");
  }
}

void check_numbers(const ScheduleOptions& o) {
  check_option("num_train_timesteps", o.num_train_timesteps, 1, 1'000'000);
  check_steps(o);
  check_option("steps_offset", o.steps_offset, 0, o.num_train_timesteps);
  check_option("eta", o.eta, 0.0, 1.0);
  check_option("clip_sample_range", o.clip_sample_range, 1e-12, 1e12);
  check_option("dynamic_thresholding_ratio", o.dynamic_thresholding_ratio, 0.0,
               1.0);
  check_option("sample_max_value", o.sample_max_value, 1e-12, 1e12);
  check_option("solver_order", o.solver_order, 1, 3);
  if (o.sigma_min) {
    check_option("sigma_min", *o.sigma_min, 1e-12, 1e12);
  }
  if (o.sigma_max) {
    check_option("sigma_max", *o.sigma_max, 1e-12, 1e12);
  }
  check_part(o);
  if (std::isnan(o.lambda_min_clipped)) {
    refuse("lambda_min_clipped", "got nan, expected a number", "");
  }
  if (o.use_lu_lambdas && !o.solver->has_key("use_lu_lambdas")) {
    refuse("use_lu_lambdas", "only dpm++ spaces by lambda", "");
  }
}

/// An explicit list sets the number of steps; its closing 0 is the end, not a
/// step.
void count_lists(ScheduleOptions& o) {
  if (!o.sigmas.empty()) {
    if (o.sigmas.back() == 0.0) {
      o.sigmas.pop_back();
    }
    if (o.sigmas.empty()) {
      refuse("sigmas", "got only 0, expected at least one noise level", "");
    }
    if (o.sigmas.back() == 0.0) {
      refuse("sigmas", "got 0 before the end, expected it last and once",
             "drop the other zeros");
    }
    o.num_inference_steps = static_cast<int>(o.sigmas.size());
  } else if (!o.timesteps.empty()) {
    o.num_inference_steps = static_cast<int>(o.timesteps.size());
  }
  if (!o.sigmas.empty() && !o.timesteps.empty() &&
      o.sigmas.size() != o.timesteps.size()) {
    refuse("timesteps",
           "got " + std::to_string(o.timesteps.size()) +
               ", expected as many as sigmas (" +
               std::to_string(o.sigmas.size()) + ")",
           "");
  }
}

}  // namespace

bool is_flow(const ScheduleOptions& o) {
  return o.solver->levels == Levels::flow || o.use_flow_sigmas;
}

void refuse_option(std::string_view option, const std::string& message,
                   std::string_view hint) {
  throw Error(Errc::invalid_argument, "schedule",
              std::string(option) + ": " + message, hint);
}

void refuse_flow_prediction(const ScheduleOptions& o, bool predicts_noise) {
  if (predicts_noise && o.prediction_type == PredictionType::flow_prediction) {
    refuse("prediction_type",
           "flow_prediction needs the form that predicts the clean sample",
           "use dpmsolver++ or predict_x0");
  }
}

ScheduleOptions resolve(ScheduleOptions o) {
  if (!o.trained_betas.empty() && o.num_train_timesteps == 1000) {
    o.num_train_timesteps = static_cast<int>(o.trained_betas.size());
  }
  const bool integer_steps = o.solver->levels == Levels::training_steps;
  if (!o.timestep_spacing) {
    o.timestep_spacing =
        integer_steps ? TimestepSpacing::leading : TimestepSpacing::linspace;
  }
  if (!o.clip_sample) {
    o.clip_sample = integer_steps && o.solver->has_key("clip_sample");
  }
  if (!o.prediction_type) {
    o.prediction_type = o.solver->levels == Levels::flow
                            ? PredictionType::flow_prediction
                            : PredictionType::epsilon;
  }
  count_lists(o);
  check_numbers(o);
  check_betas(o);
  check_lists(o);
  check_prediction(o);
  if (o.solver->resolve != nullptr) {
    o.solver->resolve(o);
  }
  check_flow(o);
  return o;
}

}  // namespace troupe::samplers
