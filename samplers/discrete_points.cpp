#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "samplers/numeric.h"
#include "samplers/points.h"

namespace troupe::samplers {
namespace {

std::vector<double> listed_timesteps(const ScheduleOptions& o) {
  for (const double t : o.timesteps) {
    if (t != std::floor(t)) {
      refuse_option("timesteps",
                    "got " + to_text(t) +
                        ", expected whole training steps for this solver",
                    "round the list");
    }
  }
  return o.timesteps;
}

}  // namespace

/// The multistep classes space n + 1 points and drop the last. The Euler family
/// does not round linspace's points.
std::vector<double> spaced_timesteps(const ScheduleOptions& o, int total) {
  const int count = o.num_inference_steps;
  const int extra = o.solver->is_multistep ? 1 : 0;
  const bool whole =
      o.solver->is_multistep || o.solver->levels == Levels::training_steps;
  std::vector<double> timesteps;
  switch (*o.timestep_spacing) {
    case TimestepSpacing::linspace:
      timesteps = linspace(0.0, total - 1.0, count + extra);
      std::reverse(timesteps.begin(), timesteps.end());
      timesteps.resize(static_cast<std::size_t>(count));
      for (double& t : timesteps) {
        t = whole ? round_half_even(t) : to_float32(t);
      }
      break;
    case TimestepSpacing::leading:
      for (int i = count + extra - 1; i >= extra; --i) {
        const int stride = total / (count + extra);
        timesteps.push_back(static_cast<double>(i) * stride + o.steps_offset);
      }
      break;
    case TimestepSpacing::trailing:
      timesteps = arange_down(
          total, static_cast<double>(o.num_train_timesteps) / count);
      timesteps.resize(
          std::min(timesteps.size(), static_cast<std::size_t>(count)));
      for (double& t : timesteps) {
        t = round_half_even(t) - 1.0;
      }
      break;
  }
  return timesteps;
}

Points discrete_points(const ScheduleOptions& o,
                       const std::vector<float>& alphas_cumprod) {
  const bool listed = !o.timesteps.empty();
  Points points;
  points.timesteps =
      listed ? listed_timesteps(o) : spaced_timesteps(o, o.num_train_timesteps);
  if (points.timesteps.front() >= o.num_train_timesteps) {
    refuse_option("steps_offset",
                  "the first timestep is " + to_text(points.timesteps.front()) +
                      ", expected below num_train_timesteps = " +
                      std::to_string(o.num_train_timesteps),
                  "use fewer steps or a smaller steps_offset");
  }
  const auto alpha_at = [&](double t) {
    return static_cast<double>(alphas_cumprod[static_cast<std::size_t>(t)]);
  };
  const bool ends_at_one =
      o.set_alpha_to_one || !o.solver->has_key("set_alpha_to_one");
  const double end = ends_at_one ? 1.0 : alphas_cumprod[0];
  const int stride = o.num_train_timesteps / o.num_inference_steps;
  const std::size_t count = points.timesteps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const double t = points.timesteps[i];
    // An explicit list goes to its next entry.
    double previous = i + 1 < count ? points.timesteps[i + 1] : -1.0;
    if (o.solver->goes_by_stride && !listed) {
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
