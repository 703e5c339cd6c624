#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/core/tensor.h"
#include "kernels/elementwise.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"

// What the step rules share. Internal to samplers.

namespace troupe::samplers {

/// One step's arguments, checked.
struct StepInput {
  const Schedule& schedule;
  int from;
  int to;
  const SolverState& state;
  Tensor output;    ///< [C, H, W]: the prediction
  Tensor variance;  ///< [C, H, W]: learned variance, or empty
  std::uint64_t sample_index;
  NoiseSource& noise;

  [[nodiscard]] NoiseLevel here() const { return schedule.level(from); }
  [[nodiscard]] NoiseLevel there() const { return schedule.arrival(to); }
  /// Unit noise of this step, shaped like the latents.
  [[nodiscard]] Tensor draw() const;
};

/// A quantity that is linear in the latents and the model output.
struct Reading {
  double latents = 0.0;
  double output = 0.0;
};
/// The clean sample, and the noise, which the output of `call` implies.
[[nodiscard]] Reading clean_reading(const Schedule& schedule, int call);
[[nodiscard]] Reading noise_reading(const Schedule& schedule, int call);

/// Σ coefficient · tensor as a new tensor; terms of coefficient 0 are left out
/// (0 · inf is not wanted). At least one tensor must be given.
[[nodiscard]] Tensor linear(std::initializer_list<kernels::Term> terms);
[[nodiscard]] Tensor apply(const Reading& reading, const Tensor& latents,
                           const Tensor& output);

/// Clips to ±clip_sample_range (where the solver does, `may_clip`) or applies
/// dynamic thresholding (Saharia et al. 2022, arXiv:2205.11487, §2.3).
void clip_clean(const ScheduleOptions& options, bool may_clip, Tensor& clean);
/// The clean sample, clipped.
[[nodiscard]] Tensor clean_sample(const StepInput& in, bool may_clip);

/// One rule per solver, and its 1-step carry coefficient.
[[nodiscard]] SolverState step_ddim(const StepInput& in);
[[nodiscard]] SolverState step_ddpm(const StepInput& in);
[[nodiscard]] SolverState step_dpmpp(const StepInput& in);
[[nodiscard]] SolverState step_euler(const StepInput& in);
[[nodiscard]] SolverState step_euler_ancestral(const StepInput& in);
[[nodiscard]] SolverState step_heun(const StepInput& in);
[[nodiscard]] SolverState step_flow_euler(const StepInput& in);
[[nodiscard]] SolverState step_unipc(const StepInput& in);

[[nodiscard]] double carry_ddim(const Schedule& schedule, int from, int to);
[[nodiscard]] double carry_ddpm(const Schedule& schedule, int from, int to);
[[nodiscard]] double carry_dpmpp(const Schedule& schedule, int from, int to);
[[nodiscard]] double carry_euler(const Schedule& schedule, int from, int to);
[[nodiscard]] double carry_euler_ancestral(const Schedule& schedule, int from,
                                           int to);
[[nodiscard]] double carry_heun(const Schedule& schedule, int from, int to);
[[nodiscard]] double carry_flow_euler(const Schedule& schedule, int from,
                                      int to);
[[nodiscard]] double carry_unipc(const Schedule& schedule, int from, int to);

}  // namespace troupe::samplers
