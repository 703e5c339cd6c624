#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/core/tensor.h"
#include "samplers/options.h"

namespace troupe::samplers {

/// An immutable table: which noise levels a run visits and what the solver
/// needs at each. Built once from plain options.
///
/// Indexing: `call` is the *model-call index* 0 … num_model_calls() − 1, and
/// num_model_calls() stands for the end (σ of the finished sample). Heun makes
/// two calls per step, all others one.
/// Thread: any.
class Schedule {
 public:
  /// Errors: Errc::invalid_argument with the option's name: 0 steps, more
  /// steps than training steps, lists that do not descend, combinations that
  /// the diffusers class refuses.
  explicit Schedule(const ScheduleOptions& options);

  [[nodiscard]] const ScheduleOptions& options() const noexcept {
    return options_;
  }
  [[nodiscard]] int num_model_calls() const noexcept {
    return static_cast<int>(timesteps_.size());
  }
  [[nodiscard]] int num_steps() const noexcept;
  /// What the network is told at a call.
  [[nodiscard]] double timestep(int call) const;
  [[nodiscard]] std::span<const double> timesteps() const noexcept {
    return timesteps_;
  }
  /// Noise levels in the solver's own parametrisation, one more than calls:
  /// σ for the sigma family and flow models; sqrt((1−ᾱ)/ᾱ) for DDIM and DDPM.
  [[nodiscard]] std::span<const double> sigmas() const noexcept {
    return sigmas_;
  }
  /// ᾱ per training step (empty for flow models), float32 as in diffusers.
  [[nodiscard]] std::span<const float> alphas_cumprod() const noexcept {
    return alphas_cumprod_;
  }
  /// ᾱ at a call, and at the end (call = num_model_calls()).
  [[nodiscard]] double alpha_cumprod(int call) const;
  /// Standard deviation of the initial latents.
  [[nodiscard]] double init_noise_sigma() const noexcept;
  /// True when a step draws noise (DDPM, ancestral, SDE solvers, eta > 0).
  [[nodiscard]] bool is_stochastic() const noexcept;
  /// Size of the change that a residual at point `call` is compared with:
  /// rms(residual) ≤ tolerance · residual_scale(call). Defined for every
  /// solver, flow models too; > 0. See samplers/README.md.
  [[nodiscard]] double residual_scale(int call) const;

 private:
  ScheduleOptions options_;
  std::vector<double> timesteps_;
  std::vector<double> sigmas_;
  std::vector<float> alphas_cumprod_;
};

}  // namespace troupe::samplers
