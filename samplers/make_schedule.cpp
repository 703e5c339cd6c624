#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "samplers/betas.h"
#include "samplers/points.h"
#include "samplers/schedule.h"

// A schedule is made once for a job: here the C library's logarithms are taken,
// and its roots.

namespace troupe::samplers {
namespace {

bool integer_steps(const ScheduleOptions& o) {
  return o.solver->levels == Levels::training_steps;
}

NoiseLevel with_logarithms(double alpha, double sigma) {
  return {alpha, sigma, std::log(alpha), std::log(sigma)};
}

NoiseLevel from_alpha_cumprod(double a) {
  return with_logarithms(std::sqrt(a), std::sqrt(std::max(0.0, 1.0 - a)));
}

NoiseLevel from_sigma(const ScheduleOptions& o, double sigma) {
  if (is_flow(o)) {
    return o.invert_sigmas ? with_logarithms(sigma, 1.0 - sigma)
                           : with_logarithms(1.0 - sigma, sigma);
  }
  if (o.solver->has_unit_signal) {
    return with_logarithms(1.0, sigma);
  }
  const double alpha = 1.0 / std::sqrt(sigma * sigma + 1.0);
  return with_logarithms(alpha, sigma * alpha);
}

double stochastic_step_size(const NoiseLevel& from, const NoiseLevel& to) {
  if (!(from.sigma > 0.0) || !(to.alpha > 0.0)) {
    return 0.0;
  }
  const double kept = from.alpha / to.alpha * to.sigma;
  const double variance = from.sigma * from.sigma - kept * kept;
  return to.sigma / from.sigma * std::sqrt(std::max(0.0, variance));
}

/// Fills levels, and arrivals where the points have none.
void add_levels(ScheduleTable& table) {
  const ScheduleOptions& o = table.options;
  if (integer_steps(o)) {
    for (const double t : table.timesteps) {
      table.levels.push_back(from_alpha_cumprod(
          table.alphas_cumprod[static_cast<std::size_t>(t)]));
    }
    table.levels.push_back(table.arrivals.back());
    return;
  }
  for (const double sigma : table.sigmas) {
    table.levels.push_back(from_sigma(o, sigma));
  }
  table.arrivals.assign(table.levels.begin() + 1, table.levels.end());
}

void add_residual_scales(ScheduleTable& table) {
  const std::size_t calls = table.timesteps.size();
  std::vector<double>& scales = table.residual_scales;
  scales.assign(calls + 1, 0.0);
  for (std::size_t p = 1; p <= calls; ++p) {
    double scale =
        stochastic_step_size(table.levels[p - 1], table.arrivals[p - 1]);
    if (table.options.solver->has_two_calls && p >= 2 && p % 2 == 0) {
      scale = scales[p - 1];  // both stages end at one noise level
    }
    if (!(scale > 0.0)) {
      scale = scales[p - 1];
    }
    scales[p] = scale;
  }
  const double floor = std::max(table.levels[0].sigma, table.arrivals[0].sigma);
  for (std::size_t p = calls + 1; p-- > 0;) {
    if (!(scales[p] > 0.0)) {
      scales[p] = p < calls ? scales[p + 1] : floor;
    }
  }
}

}  // namespace

Schedule::Schedule(const ScheduleOptions& options) {
  table_.options = resolve(options);
  const ScheduleOptions& o = table_.options;
  if (o.solver->levels != Levels::flow) {
    table_.alphas_cumprod = cumulative_alphas(make_betas(o), !integer_steps(o),
                                              o.rescale_betas_zero_snr);
  }
  const auto make_points =
      o.use_flow_sigmas ? o.solver->flow_points : o.solver->points;
  Points points = make_points(o, table_.alphas_cumprod);
  table_.timesteps = std::move(points.timesteps);
  table_.sigmas = std::move(points.sigmas);
  for (const double a : points.arrival_alphas) {
    table_.arrivals.push_back(from_alpha_cumprod(a));
  }
  if (is_flow(o)) {
    table_.alphas_cumprod.clear();
  }
  if (o.solver->has_unit_signal) {
    const auto top = static_cast<float>(
        *std::max_element(table_.sigmas.begin(), table_.sigmas.end()));
    table_.init_noise_sigma = o.timestep_spacing == TimestepSpacing::leading
                                  ? std::sqrt(top * top + 1.0F)
                                  : top;
  }
  add_levels(table_);
  check_signs();
  add_residual_scales(table_);
}

}  // namespace troupe::samplers
