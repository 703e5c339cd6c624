#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "samplers/betas.h"
#include "samplers/numeric.h"
#include "samplers/points.h"

namespace troupe::samplers {
namespace {

/// Esser et al. 2024, arXiv:2403.03206, eq. 23, in the element type that
/// diffusers would use (float32 for explicit lists).
template <typename T>
void shift_static(double shift, std::span<T> sigmas) {
  for (T& s : sigmas) {
    s = static_cast<T>(shift) * s / (T{1} + static_cast<T>(shift - 1.0) * s);
  }
}

template <typename T>
void shift_dynamic(const ScheduleOptions& o, std::span<T> sigmas) {
  const auto m = static_cast<T>(o.time_shift_linear ? *o.mu : std::exp(*o.mu));
  for (T& s : sigmas) {
    s = m / (m + (T{1} / s - T{1}));
  }
}

template <typename T>
void stretch_to_terminal(double terminal, std::span<T> sigmas) {
  const T scale = (T{1} - sigmas.back()) / static_cast<T>(1.0 - terminal);
  for (T& s : sigmas) {
    s = T{1} - (T{1} - s) / scale;
  }
}

template <typename T>
void shift_all(const ScheduleOptions& o, double shift, std::span<T> sigmas) {
  if (o.use_dynamic_shifting) {
    shift_dynamic(o, sigmas);
  } else {
    shift_static(shift, sigmas);
  }
  if (o.shift_terminal && *o.shift_terminal != 0.0) {
    stretch_to_terminal(*o.shift_terminal, sigmas);
  }
}

std::vector<double> shifted_list(const ScheduleOptions& o,
                                 const std::vector<double>& list) {
  std::vector<float> sigmas(list.begin(), list.end());
  shift_all<float>(o, o.shift, sigmas);
  return {sigmas.begin(), sigmas.end()};
}

/// The ends are those of the table built at construction, which is already
/// shifted when shifting is static: so the shift acts twice, as in diffusers.
std::vector<double> shifted_range(const ScheduleOptions& o) {
  const auto total = static_cast<float>(o.num_train_timesteps);
  std::vector<float> ends = {1.0F, 1.0F / total};
  if (!o.use_dynamic_shifting) {
    shift_static<float>(o.shift, ends);
  }
  std::vector<double> sigmas =
      linspace(static_cast<double>(ends[0]) * o.num_train_timesteps,
               static_cast<double>(ends[1]) * o.num_train_timesteps,
               o.num_inference_steps);
  for (double& s : sigmas) {
    s /= o.num_train_timesteps;
  }
  shift_all<double>(o, o.shift, sigmas);
  return sigmas;
}

/// Timesteps of the sigmas, and the last one behind them.
Points with_end(const ScheduleOptions& o, std::vector<double> sigmas,
                double last) {
  Points points;
  for (const double s : sigmas) {
    points.timesteps.push_back(std::trunc(s * o.num_train_timesteps));
  }
  sigmas.push_back(last);
  for (double& s : sigmas) {
    s = to_float32(s);
  }
  points.sigmas = std::move(sigmas);
  return points;
}

}  // namespace

Points flow_euler_points(const ScheduleOptions& o,
                         const std::vector<float>& /*alphas_cumprod*/) {
  const auto total = static_cast<float>(o.num_train_timesteps);
  std::vector<double> sigmas;
  if (!o.sigmas.empty()) {
    sigmas = shifted_list(o, o.sigmas);
  } else if (!o.timesteps.empty()) {
    std::vector<double> list;
    for (const double t : o.timesteps) {
      list.push_back(static_cast<float>(t) / total);
    }
    sigmas = shifted_list(o, list);
  } else {
    sigmas = shifted_range(o);
  }
  const double high = o.sigma_max.value_or(sigmas.front());
  const double low = o.sigma_min.value_or(sigmas.back());
  const int count = static_cast<int>(sigmas.size());
  if (o.sigma_spacing == SigmaSpacing::karras) {
    sigmas = karras_sigmas(high, low, count);
  } else if (o.sigma_spacing == SigmaSpacing::exponential) {
    sigmas = exponential_sigmas(high, low, count);
  } else if (o.sigma_spacing == SigmaSpacing::beta) {
    sigmas = beta_sigmas(high, low, count);
  }
  Points points;
  for (std::size_t i = 0; i < sigmas.size(); ++i) {
    auto sigma = static_cast<float>(sigmas[i]);
    float t = sigma * total;
    if (!o.timesteps.empty()) {
      t = static_cast<float>(o.timesteps[i]);
    }
    if (o.invert_sigmas) {
      sigma = 1.0F - sigma;
      t = sigma * total;
    }
    points.sigmas.push_back(sigma);
    points.timesteps.push_back(t);
  }
  points.sigmas.push_back(o.invert_sigmas ? 1.0 : 0.0);
  return points;
}

/// Keeps away from σ = 1 by leaving out the cleanest point.
Points dpmpp_flow_points(const ScheduleOptions& o,
                         const std::vector<float>& alphas_cumprod) {
  const int count = o.num_inference_steps;
  std::vector<double> sigmas;
  std::vector<double> clean =
      linspace(1.0, 1.0 / o.num_train_timesteps, count + 1);
  for (int i = count; i > 0; --i) {
    sigmas.push_back(1.0 - clean[static_cast<std::size_t>(i)]);
  }
  if (!o.sigmas.empty()) {
    sigmas = o.sigmas;
  }
  const double shift = o.use_dynamic_shifting ? std::exp(*o.mu) : o.flow_shift;
  shift_static<double>(shift, sigmas);
  const bool is_zero = o.final_sigma_zero || !o.sigmas.empty();
  return with_end(o, std::move(sigmas),
                  is_zero ? 0.0 : training_sigmas(alphas_cumprod).front());
}

/// Keeps away from σ = 1 by a small step back.
Points unipc_flow_points(const ScheduleOptions& o,
                         const std::vector<float>& alphas_cumprod) {
  const int count = o.num_inference_steps;
  std::vector<double> sigmas;
  if (o.sigma_spacing == SigmaSpacing::karras) {
    const std::vector<float> table = training_sigmas(alphas_cumprod);
    sigmas = karras_sigmas(o.sigma_max.value_or(table.back()),
                           o.sigma_min.value_or(table.front()), count);
    for (double& s : sigmas) {
      s /= s + 1.0;
    }
  } else {
    sigmas = o.sigmas.empty()
                 ? linspace(1.0, 1.0 / o.num_train_timesteps, count + 1)
                 : o.sigmas;
    sigmas.resize(static_cast<std::size_t>(count));
    shift_all<double>(o, o.flow_shift, sigmas);
    constexpr double kStepBack = 1e-6;
    if (std::fabs(sigmas[0] - 1.0) < kStepBack) {
      sigmas[0] -= kStepBack;
    }
  }
  const bool is_zero = o.final_sigma_zero || !o.sigmas.empty();
  const double last = is_zero ? 0.0 : sigmas.back();
  return with_end(o, std::move(sigmas), last);
}

}  // namespace troupe::samplers
