#include "samplers/schedule.h"

#include <algorithm>
#include <string>

#include "kernels/core/error.h"
#include "samplers/points.h"

namespace troupe::samplers {
namespace {

std::size_t checked(int call, std::size_t count) {
  if (call < 0 || static_cast<std::size_t>(call) >= count) {
    throw Error(Errc::invalid_argument, "schedule",
                "model call: got " + std::to_string(call) + ", expected 0 to " +
                    std::to_string(count - 1));
  }
  return static_cast<std::size_t>(call);
}

}  // namespace

int Schedule::num_steps() const noexcept {
  const int calls = num_model_calls();
  const Solver solver = table_.options.solver;
  if (solver->has_two_calls) {
    return (calls + 1) / 2;
  }
  return std::max(1, calls - (solver->extra_calls == nullptr
                                  ? 0
                                  : solver->extra_calls(table_.options)));
}

double Schedule::timestep(int call) const {
  return table_.timesteps[checked(call, table_.timesteps.size())];
}

NoiseLevel Schedule::level(int call) const {
  return table_.levels[checked(call, table_.levels.size())];
}

NoiseLevel Schedule::arrival(int call) const {
  return table_.arrivals[checked(call - 1, table_.arrivals.size())];
}

bool Schedule::tells_sign_only(int call) const {
  return table_.options.prediction_type == PredictionType::epsilon &&
         !is_flow(table_.options) && !(level(call).alpha > 0.0);
}

bool Schedule::is_stochastic() const noexcept {
  const auto asks = table_.options.solver->is_stochastic;
  return asks != nullptr && asks(table_.options);
}

bool Schedule::draws_noise(int call) const {
  const double t = timestep(call);
  return is_stochastic() &&
         (table_.options.solver->draws_at_timestep_zero || t > 0.0);
}

double Schedule::residual_scale(int call) const {
  return table_.residual_scales[checked(call, table_.residual_scales.size())];
}

void Schedule::check_signs() const {
  // Clipping makes a number of ±∞; a quantile of infinities is none.
  const ScheduleOptions& o = table_.options;
  if (*o.clip_sample && o.solver->has_key("clip_sample") && !o.thresholding) {
    return;
  }
  for (int call = 0; call < num_model_calls(); ++call) {
    if (tells_sign_only(call)) {
      throw Error(Errc::invalid_argument, "schedule",
                  "prediction_type: epsilon says nothing at timestep " +
                      std::to_string(static_cast<long>(timestep(call))) +
                      ", where no signal is left",
                  "with rescale_betas_zero_snr use v_prediction or sample, "
                  "--clip-sample true, or a spacing that leaves the last "
                  "training step out");
    }
  }
}

}  // namespace troupe::samplers
