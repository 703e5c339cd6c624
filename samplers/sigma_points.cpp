#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "kernels/core/error.h"
#include "samplers/betas.h"
#include "samplers/numeric.h"
#include "samplers/points.h"

namespace troupe::samplers {
namespace {

/// The multistep classes space n + 1 points and drop the last, whole steps;
/// the Euler family spaces n points, not rounded for linspace.
std::vector<double> spaced_timesteps(const ScheduleOptions& o, int total,
                                     bool whole) {
  const int count = o.num_inference_steps;
  const int extra = whole ? 1 : 0;
  std::vector<double> t;
  switch (*o.timestep_spacing) {
    case TimestepSpacing::linspace:
      t = linspace(0.0, total - 1.0, count + extra);
      std::reverse(t.begin(), t.end());
      t.resize(static_cast<std::size_t>(count));
      for (double& value : t) {
        value = whole ? round_half_even(value)
                      : static_cast<double>(static_cast<float>(value));
      }
      break;
    case TimestepSpacing::leading:
      for (int i = count + extra - 1; i >= extra; --i) {
        const int stride = total / (count + extra);
        t.push_back(static_cast<double>(i) * stride + o.steps_offset);
      }
      break;
    case TimestepSpacing::trailing: {
      t = arange_down(total,
                      static_cast<double>(o.num_train_timesteps) / count);
      t.resize(std::min(t.size(), static_cast<std::size_t>(count)));
      for (double& value : t) {
        value = round_half_even(value) - 1.0;
      }
      break;
    }
  }
  return t;
}

/// Training steps that are left once those are cut off from the end whose λ
/// lies below lambda_min_clipped.
int steps_above_clipped_lambda(const ScheduleOptions& o,
                               const std::vector<float>& alphas) {
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

void truncate(std::vector<double>& timesteps) {
  for (double& t : timesteps) {
    t = std::trunc(t);
  }
}

/// Fills σ by Karras, exponential, beta or lu spacing between two ends, and
/// the timesteps that belong to them.
void respace(const ScheduleOptions& o, const SigmaRules& rules, double high,
             double low, const std::vector<float>& logs, Points& points) {
  const int count = static_cast<int>(points.timesteps.size());
  high = o.sigma_max.value_or(high);
  low = o.sigma_min.value_or(low);
  bool whole = false;
  if (o.sigma_spacing == SigmaSpacing::karras) {
    points.sigmas = karras_sigmas(high, low, count);
    whole = rules.karras_steps == WholeSteps::always ||
            (rules.karras_steps == WholeSteps::unless_cosine &&
             o.beta_schedule != BetaSchedule::squaredcos_cap_v2);
  } else if (o.use_lu_lambdas) {
    points.sigmas = linspace(logs.back(), logs.front(), count);
    for (double& sigma : points.sigmas) {
      sigma = std::exp(sigma);
    }
    whole = o.beta_schedule != BetaSchedule::squaredcos_cap_v2;
  } else if (o.sigma_spacing == SigmaSpacing::exponential) {
    points.sigmas = exponential_sigmas(high, low, count);
  } else {
    points.sigmas = beta_sigmas(high, low, count);
  }
  for (std::size_t i = 0; i < points.sigmas.size(); ++i) {
    const double t = sigma_to_timestep(points.sigmas[i], logs);
    points.timesteps[i] = whole ? round_half_even(t) : t;
  }
}

void use_listed_sigmas(const ScheduleOptions& o, bool whole,
                       const std::vector<float>& logs, Points& points) {
  for (const double value : o.sigmas) {
    const auto sigma = static_cast<float>(value);
    const double t = sigma_to_timestep_f32(sigma, logs);
    points.sigmas.push_back(sigma);
    points.timesteps.push_back(whole ? round_half_even(t) : t);
  }
}

double last_sigma(const ScheduleOptions& o, const SigmaRules& rules,
                  const std::vector<float>& table, const Points& points) {
  if (o.final_sigma_zero || rules.always_ends_at_zero || !o.sigmas.empty()) {
    return 0.0;
  }
  if (rules.repeats_respaced_end && o.sigma_spacing != SigmaSpacing::none) {
    return points.sigmas.back();
  }
  return table.front();
}

void round_to_float(std::vector<double>& values) {
  for (double& value : values) {
    value = static_cast<double>(static_cast<float>(value));
  }
}

void check_strict_descent(const Points& points) {
  for (std::size_t i = 0; i + 1 < points.sigmas.size(); ++i) {
    // An ending at "sigma_min" may repeat the last value: a step of no length.
    const bool repeated_end = i + 2 == points.sigmas.size();
    if (!(points.sigmas[i + 1] < points.sigmas[i]) && !repeated_end) {
      throw Error(Errc::invalid_argument, "schedule",
                  "num_inference_steps: two steps share the noise level " +
                      to_text(points.sigmas[i]),
                  "use fewer steps or another timestep_spacing");
    }
  }
}

}  // namespace

Points sigma_points(const ScheduleOptions& o,
                    const std::vector<float>& alphas_cumprod,
                    const SigmaRules& rules) {
  const int training_steps = rules.has_clipped_lambda
                                 ? steps_above_clipped_lambda(o, alphas_cumprod)
                                 : o.num_train_timesteps;
  const bool whole = rules.has_whole_steps;
  const std::vector<float> table = training_sigmas(alphas_cumprod);
  const std::vector<float> logs = log_of(table);
  Points points;
  if (!o.sigmas.empty()) {
    use_listed_sigmas(o, whole, logs, points);
  } else {
    if (o.timesteps.empty() && training_steps == 0) {
      throw Error(Errc::invalid_argument, "schedule",
                  "lambda_min_clipped: no training step is left",
                  "lower lambda_min_clipped");
    }
    points.timesteps = !o.timesteps.empty()
                           ? o.timesteps
                           : spaced_timesteps(o, training_steps, whole);
    if (whole) {
      truncate(points.timesteps);
    }
    for (const double t : points.timesteps) {
      points.sigmas.push_back(interpolate(t, table));
    }
    if (o.sigma_spacing != SigmaSpacing::none || o.use_lu_lambdas) {
      points.timesteps.resize(static_cast<std::size_t>(o.num_inference_steps));
      respace(o, rules, whole ? table.back() : points.sigmas.front(),
              whole ? table.front() : points.sigmas.back(), logs, points);
    }
  }
  if (whole) {
    truncate(points.timesteps);
  }
  points.sigmas.push_back(last_sigma(o, rules, table, points));
  round_to_float(points.sigmas);
  round_to_float(points.timesteps);
  check_strict_descent(points);
  return points;
}

}  // namespace troupe::samplers
