#pragma once

#include <vector>

#include "samplers/options.h"

// The three ways a schedule's points are made. Internal to samplers.

namespace troupe::samplers {

/// Points of a run: timesteps of the n steps; n + 1 noise levels.
struct Points {
  std::vector<double> timesteps;
  std::vector<double> sigmas;
  /// ᾱ each step arrives at (DDIM, DDPM); empty for the others.
  std::vector<double> arrival_alphas;
};

/// Checks every option and fills in the defaults of the solver's diffusers
/// class. Errors: Errc::invalid_argument with the option's name.
[[nodiscard]] ScheduleOptions resolve(ScheduleOptions options);

/// DDIM and DDPM: integer training steps.
[[nodiscard]] Points discrete_points(const ScheduleOptions& options,
                                     const std::vector<float>& alphas_cumprod);
/// Euler, Euler ancestral, Heun, DPM-Solver++ and UniPC: σ, continuous.
[[nodiscard]] Points sigma_points(const ScheduleOptions& options,
                                  const std::vector<float>& alphas_cumprod);
/// Flow-match Euler, and DPM-Solver++ and UniPC with use_flow_sigmas.
[[nodiscard]] Points flow_points(const ScheduleOptions& options,
                                 const std::vector<float>& alphas_cumprod);

}  // namespace troupe::samplers
