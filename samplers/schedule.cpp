#include "samplers/schedule.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/core/error.h"
#include "samplers/betas.h"
#include "samplers/tables.h"

namespace troupe::samplers {
namespace {

bool integer_steps(const ScheduleOptions& o) {
  return o.solver->levels == Levels::training_steps;
}

bool is_flow(const ScheduleOptions& o) {
  return o.solver->levels == Levels::flow || o.use_flow_sigmas;
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

std::size_t checked(int call, std::size_t count) {
  if (call < 0 || static_cast<std::size_t>(call) >= count) {
    throw Error(Errc::invalid_argument, "schedule",
                "model call: got " + std::to_string(call) + ", expected 0 to " +
                    std::to_string(count - 1));
  }
  return static_cast<std::size_t>(call);
}

double stochastic_step_size(const NoiseLevel& from, const NoiseLevel& to) {
  if (!(from.sigma > 0.0) || !(to.alpha > 0.0)) {
    return 0.0;
  }
  const double kept = from.alpha / to.alpha * to.sigma;
  const double variance = from.sigma * from.sigma - kept * kept;
  return to.sigma / from.sigma * std::sqrt(std::max(0.0, variance));
}

}  // namespace

Schedule::Schedule(const ScheduleOptions& options)
    : options_(resolve(options)) {
  const ScheduleOptions& o = options_;
  if (o.solver->levels != Levels::flow) {
    alphas_cumprod_ = cumulative_alphas(make_betas(o), !integer_steps(o),
                                        o.rescale_betas_zero_snr);
  }
  if (is_flow(o)) {
    check_flow_sigmas(o);
  }
  const auto make_points =
      o.use_flow_sigmas ? o.solver->flow_points : o.solver->points;
  Points points = make_points(o, alphas_cumprod_);
  timesteps_ = std::move(points.timesteps);
  sigmas_ = std::move(points.sigmas);
  for (const double a : points.arrival_alphas) {
    arrivals_.push_back(from_alpha_cumprod(a));
  }
  if (is_flow(o)) {
    alphas_cumprod_.clear();
  }
  if (o.solver->has_unit_signal) {
    const auto top =
        static_cast<float>(*std::max_element(sigmas_.begin(), sigmas_.end()));
    init_noise_sigma_ = o.timestep_spacing == TimestepSpacing::leading
                            ? std::sqrt(top * top + 1.0F)
                            : top;
  }
  build_levels();
  build_residual_scales();
}

void Schedule::build_levels() {
  const ScheduleOptions& o = options_;
  const std::size_t calls = timesteps_.size();
  if (integer_steps(o)) {
    for (const double t : timesteps_) {
      levels_.push_back(
          from_alpha_cumprod(alphas_cumprod_[static_cast<std::size_t>(t)]));
    }
    levels_.push_back(arrivals_.back());
  } else {
    for (const double sigma : sigmas_) {
      levels_.push_back(from_sigma(o, sigma));
    }
    arrivals_.assign(levels_.begin() + 1, levels_.end());
  }
  // Clipping makes a number of ±∞; a quantile of infinities is none.
  const bool is_clipped = *o.clip_sample && !o.thresholding;
  for (std::size_t i = 0; i < calls && !is_clipped; ++i) {
    if (tells_sign_only(static_cast<int>(i))) {
      throw Error(Errc::invalid_argument, "schedule",
                  "prediction_type: epsilon says nothing at timestep " +
                      std::to_string(static_cast<long>(timesteps_[i])) +
                      ", where no signal is left",
                  "with rescale_betas_zero_snr use v_prediction or sample, "
                  "--clip-sample true, or a spacing that leaves the last "
                  "training step out");
    }
  }
}

void Schedule::build_residual_scales() {
  const std::size_t calls = timesteps_.size();
  residual_scales_.assign(calls + 1, 0.0);
  for (std::size_t p = 1; p <= calls; ++p) {
    double scale = stochastic_step_size(levels_[p - 1], arrivals_[p - 1]);
    if (options_.solver->has_two_calls && p >= 2 && p % 2 == 0) {
      scale = residual_scales_[p - 1];  // both stages end at one noise level
    }
    if (!(scale > 0.0)) {
      scale = residual_scales_[p - 1];
    }
    residual_scales_[p] = scale;
  }
  const double floor = std::max(levels_[0].sigma, arrivals_[0].sigma);
  for (std::size_t p = calls + 1; p-- > 0;) {
    if (!(residual_scales_[p] > 0.0)) {
      residual_scales_[p] = p < calls ? residual_scales_[p + 1] : floor;
    }
  }
}

int Schedule::num_steps() const noexcept {
  const int calls = num_model_calls();
  return options_.solver->has_two_calls ? (calls + 1) / 2 : calls;
}

double Schedule::timestep(int call) const {
  return timesteps_[checked(call, timesteps_.size())];
}

NoiseLevel Schedule::level(int call) const {
  return levels_[checked(call, levels_.size())];
}

NoiseLevel Schedule::arrival(int call) const {
  return arrivals_[checked(call - 1, arrivals_.size())];
}

double Schedule::alpha_cumprod(int call) const {
  const NoiseLevel at = level(call);
  const double signal = at.alpha * at.alpha;
  return signal / (signal + at.sigma * at.sigma);
}

bool Schedule::tells_sign_only(int call) const {
  return options_.prediction_type == PredictionType::epsilon &&
         !is_flow(options_) && !(level(call).alpha > 0.0);
}

bool Schedule::is_stochastic() const noexcept {
  const auto asks = options_.solver->is_stochastic;
  return asks != nullptr && asks(options_);
}

bool Schedule::draws_noise(int call) const {
  const double t = timestep(call);
  return is_stochastic() &&
         (options_.solver->draws_at_timestep_zero || t > 0.0);
}

double Schedule::residual_scale(int call) const {
  return residual_scales_[checked(call, residual_scales_.size())];
}

}  // namespace troupe::samplers
