#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "samplers/betas.h"
#include "samplers/numeric.h"
#include "samplers/points.h"

namespace troupe::samplers {
namespace {

/// Of which diffusers takes the logarithm.
constexpr double kLeastSigma = 1e-10;

/// Training steps that are left once those are cut off from the end whose
/// λ = log(α/σ) lies below lambda_min_clipped, which the cosine schedule needs.
int steps_above_clipped_lambda(const ScheduleOptions& o,
                               const std::vector<float>& alphas) {
  if (!o.solver->has_key("lambda_min_clipped")) {
    return o.num_train_timesteps;
  }
  int below = 0;
  for (auto a = alphas.rbegin(); a != alphas.rend(); ++a) {
    const float lambda =
        std::log(std::sqrt(*a)) - std::log(std::sqrt(1.0F - *a));
    if (!(lambda < static_cast<float>(o.lambda_min_clipped))) {
      break;
    }
    ++below;
  }
  return o.num_train_timesteps - below;
}

/// The multistep classes hand the network whole training steps.
void truncate_for_multistep(const ScheduleOptions& o, Points& points) {
  if (o.solver->is_multistep) {
    for (double& t : points.timesteps) {
      t = std::trunc(t);
    }
  }
}

/// Fills σ by Karras, exponential, beta or lu spacing between two ends, and
/// the timesteps that belong to them.
void respace(const ScheduleOptions& o, double high, double low,
             const std::vector<float>& logs, Points& points) {
  const int count = static_cast<int>(points.timesteps.size());
  high = o.sigma_max.value_or(high);
  low = o.sigma_min.value_or(low);
  const bool is_cosine = o.beta_schedule == BetaSchedule::squaredcos_cap_v2;
  bool whole = false;
  if (o.sigma_spacing == SigmaSpacing::karras) {
    points.sigmas = karras_sigmas(high, low, count);
    const KarrasSteps steps = o.solver->karras_steps;
    whole = steps == KarrasSteps::whole ||
            (steps == KarrasSteps::whole_unless_cosine && !is_cosine);
  } else if (o.use_lu_lambdas) {
    points.sigmas = linspace(logs.back(), logs.front(), count);
    for (double& sigma : points.sigmas) {
      sigma = std::exp(sigma);
    }
    whole = !is_cosine;
  } else if (o.sigma_spacing == SigmaSpacing::exponential) {
    points.sigmas = exponential_sigmas(high, low, count);
  } else {
    points.sigmas = beta_sigmas(high, low, count);
  }
  // Where the fraction is cut off, and where the last levels of the table lie
  // so far apart that a rounding is some steps.
  const bool in_float = o.solver->is_multistep || o.rescale_betas_zero_snr;
  for (std::size_t i = 0; i < points.sigmas.size(); ++i) {
    const double log_sigma = std::log(std::max(points.sigmas[i], kLeastSigma));
    const double t = in_float
                         ? timestep_of_log(static_cast<float>(log_sigma), logs)
                         : timestep_of_log(log_sigma, logs);
    points.timesteps[i] = whole ? round_half_even(t) : t;
  }
}

void use_listed_sigmas(const ScheduleOptions& o, const std::vector<float>& logs,
                       Points& points) {
  for (const double value : o.sigmas) {
    const auto sigma = static_cast<float>(value);
    const double t = timestep_of_log(
        std::log(std::max(sigma, static_cast<float>(kLeastSigma))), logs);
    points.sigmas.push_back(sigma);
    points.timesteps.push_back(o.solver->is_multistep ? round_half_even(t) : t);
  }
}

double last_sigma(const ScheduleOptions& o, const std::vector<float>& table,
                  const Points& points) {
  if (o.final_sigma_zero || !o.solver->has_key("final_sigmas_type") ||
      !o.sigmas.empty()) {
    return 0.0;
  }
  if (o.solver->repeats_respaced_end && o.sigma_spacing != SigmaSpacing::none) {
    return points.sigmas.back();
  }
  return table.front();
}

void round_to_float(std::vector<double>& values) {
  for (double& value : values) {
    value = to_float32(value);
  }
}

}  // namespace

Points sigma_points(const ScheduleOptions& o,
                    const std::vector<float>& alphas_cumprod) {
  const int training_steps = steps_above_clipped_lambda(o, alphas_cumprod);
  const std::vector<float> table = training_sigmas(alphas_cumprod);
  const std::vector<float> logs = log_of(table);
  Points points;
  if (!o.sigmas.empty()) {
    use_listed_sigmas(o, logs, points);
  } else {
    if (o.timesteps.empty() && training_steps == 0) {
      refuse_option("lambda_min_clipped", "no training step is left",
                    "lower lambda_min_clipped");
    }
    points.timesteps = !o.timesteps.empty()
                           ? o.timesteps
                           : spaced_timesteps(o, training_steps);
    truncate_for_multistep(o, points);
    for (const double t : points.timesteps) {
      points.sigmas.push_back(interpolate(t, table));
    }
    if (o.sigma_spacing != SigmaSpacing::none || o.use_lu_lambdas) {
      points.timesteps.resize(static_cast<std::size_t>(o.num_inference_steps));
      const bool whole_range = o.solver->is_multistep;
      respace(o, whole_range ? table.back() : points.sigmas.front(),
              whole_range ? table.front() : points.sigmas.back(), logs, points);
    }
  }
  truncate_for_multistep(o, points);
  points.sigmas.push_back(last_sigma(o, table, points));
  round_to_float(points.sigmas);
  round_to_float(points.timesteps);
  return points;
}

}  // namespace troupe::samplers
