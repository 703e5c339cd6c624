#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "kernels/core/error.h"
#include "samplers/betas.h"
#include "samplers/numeric.h"
#include "samplers/points.h"

namespace troupe::samplers {
namespace {

std::vector<double> spaced_timesteps(const ScheduleOptions& o) {
  const int total = o.num_train_timesteps;
  const int count = o.num_inference_steps;
  std::vector<double> timesteps;
  switch (*o.timestep_spacing) {
    case TimestepSpacing::linspace:
      timesteps = linspace(0.0, total - 1.0, count);
      std::reverse(timesteps.begin(), timesteps.end());
      for (double& t : timesteps) {
        t = round_half_even(t);
      }
      break;
    case TimestepSpacing::leading:
      for (int i = count - 1; i >= 0; --i) {
        const int stride = total / count;
        timesteps.push_back(static_cast<double>(i) * stride + o.steps_offset);
      }
      break;
    case TimestepSpacing::trailing:
      timesteps = arange_down(total, static_cast<double>(total) / count);
      timesteps.resize(static_cast<std::size_t>(count));
      for (double& t : timesteps) {
        t = round_half_even(t) - 1.0;
      }
      break;
  }
  return timesteps;
}

std::vector<double> listed_timesteps(const ScheduleOptions& o) {
  for (const double t : o.timesteps) {
    if (t != std::floor(t)) {
      throw Error(Errc::invalid_argument, "schedule",
                  "timesteps: got " + to_text(t) +
                      ", expected whole training steps for this solver",
                  "round the list");
    }
  }
  return o.timesteps;
}

}  // namespace

Points discrete_points(const ScheduleOptions& o,
                       const std::vector<float>& alphas_cumprod,
                       const DiscreteRules& rules) {
  const bool listed = !o.timesteps.empty();
  Points points;
  points.timesteps = listed ? listed_timesteps(o) : spaced_timesteps(o);
  if (points.timesteps.front() >= o.num_train_timesteps) {
    throw Error(Errc::invalid_argument, "schedule",
                "steps_offset: the first timestep is " +
                    to_text(points.timesteps.front()) +
                    ", expected below num_train_timesteps = " +
                    std::to_string(o.num_train_timesteps),
                "use fewer steps or a smaller steps_offset");
  }
  const auto alpha_at = [&](double t) {
    return static_cast<double>(alphas_cumprod[static_cast<std::size_t>(t)]);
  };
  const double end = rules.ends_at_first_alpha ? alphas_cumprod[0] : 1.0;
  const int stride = o.num_train_timesteps / o.num_inference_steps;
  const std::size_t count = points.timesteps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const double t = points.timesteps[i];
    // An explicit list goes to its next entry.
    double previous = i + 1 < count ? points.timesteps[i + 1] : -1.0;
    if (rules.goes_by_stride && !listed) {
      previous = t - stride;
    }
    points.arrival_alphas.push_back(previous >= 0.0 ? alpha_at(previous) : end);
    const double a = alpha_at(t);
    points.sigmas.push_back(std::sqrt((1.0 - a) / a));
  }
  const double last = points.arrival_alphas.back();
  points.sigmas.push_back(std::sqrt((1.0 - last) / last));
  return points;
}

}  // namespace troupe::samplers
