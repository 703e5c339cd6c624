#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "samplers/options.h"

namespace troupe::samplers {

/// The mixture at one point of the chain: x = alpha · (clean sample) +
/// sigma · (unit noise). VP solvers have alpha² + sigma² = 1, the Euler family
/// alpha = 1, flow models alpha = 1 − sigma. The logarithms are taken once,
/// when the schedule is made: no step calls the C library's, whose last bits
/// vary by version and CPU.
struct NoiseLevel {
  double alpha = 1.0;
  double sigma = 0.0;
  double log_alpha = 0.0;
  double log_sigma = -std::numeric_limits<double>::infinity();

  /// λ of the DPM-Solver papers: infinite where a level vanishes.
  [[nodiscard]] double log_snr() const noexcept {
    return log_alpha - log_sigma;
  }
};

/// All numbers of a Schedule. Steps compute from these alone, without the C
/// library: two processes that hold equal bits of them take equal steps.
struct ScheduleTable {
  ScheduleOptions options;         ///< resolved: see Schedule::options()
  std::vector<double> timesteps;   ///< one per call
  std::vector<double> sigmas;      ///< one per call, and the last
  std::vector<NoiseLevel> levels;  ///< one per call, and the last
  /// One per call: entry i belongs to the steps that end at point i + 1.
  std::vector<NoiseLevel> arrivals;
  std::vector<double> residual_scales;  ///< one per call, and the last
  double init_noise_sigma = 1.0;
  // Calls of the whole run that are not in these lists: see
  // ScheduleOptions::denoising_start.
  int calls_before = 0;
  int calls_after = 0;
  std::vector<float> alphas_cumprod;  ///< one per training step; flow: empty
};

/// An immutable table: which noise levels a run visits and what the solver
/// needs at each. Made once from plain options, or rebuilt from its numbers.
///
/// Indexing: `call` is the *model-call index* 0 … num_model_calls() − 1, and
/// num_model_calls() stands for the end (σ of the finished sample). Heun makes
/// two calls per step but one for its last, PNDM four in each of its first
/// three steps (as PLMS: two in its first); all others one.
/// Thread: any.
/// Source: diffusers schedulers/scheduling_*.py, timesteps and sigmas equal.
class Schedule {
 public:
  /// Errors: Errc::invalid_argument with the option's name: 0 steps, more
  /// steps than training steps, lists that do not descend, combinations that
  /// the diffusers class refuses.
  explicit Schedule(const ScheduleOptions& options);

  /// The schedule that `table` came from, perhaps in another process. The bits
  /// are the same, because no number is computed again. An untrusted table is
  /// safe: steps end with every table that is accepted. Errors:
  /// Errc::corrupt_file with the place: options that are not resolved or are
  /// refused, lists of other sizes, numbers out of range, logarithms of other
  /// numbers.
  [[nodiscard]] static Schedule from_table(ScheduleTable table);
  [[nodiscard]] const ScheduleTable& table() const noexcept { return table_; }

  /// The options with every default filled in: timestep_spacing, clip_sample,
  /// prediction_type and solver_type are set, and num_inference_steps counts
  /// explicit lists.
  [[nodiscard]] const ScheduleOptions& options() const noexcept {
    return table_.options;
  }
  [[nodiscard]] int num_model_calls() const noexcept {
    return static_cast<int>(table_.timesteps.size());
  }
  [[nodiscard]] int num_steps() const noexcept;
  /// Calls of the whole run before call 0 and after the last. Solvers whose
  /// order falls at the end of a run count with them.
  [[nodiscard]] int calls_before() const noexcept {
    return table_.calls_before;
  }
  [[nodiscard]] int calls_after() const noexcept { return table_.calls_after; }
  /// The timestep that the network gets at a call.
  [[nodiscard]] double timestep(int call) const;
  [[nodiscard]] std::span<const double> timesteps() const noexcept {
    return table_.timesteps;
  }
  /// Noise levels in the solver's own parametrisation, one more than calls:
  /// σ for the sigma family and flow models; sqrt((1−ᾱ)/ᾱ) for solvers over
  /// whole training steps.
  [[nodiscard]] std::span<const double> sigmas() const noexcept {
    return table_.sigmas;
  }
  /// ᾱ per training step (empty for flow models), float32 as in diffusers.
  [[nodiscard]] std::span<const float> alphas_cumprod() const noexcept {
    return table_.alphas_cumprod;
  }
  /// The mixture with which the output of call `call` is read. That of
  /// num_model_calls() is that of the latents in the end.
  [[nodiscard]] NoiseLevel level(int call) const;
  /// The mixture a step that ends at point `call` arrives at, 1 ≤ call ≤
  /// num_model_calls(). Equal to level(call) but for DDIM and PNDM, whose steps
  /// span num_train_timesteps // num_inference_steps whatever the spacing.
  [[nodiscard]] NoiseLevel arrival(int call) const;
  /// True where no signal is left (ᾱ = 0) and the network predicts noise: its
  /// output tells the sign of the clean sample alone, which the solver clips.
  [[nodiscard]] bool tells_sign_only(int call) const;
  /// Standard deviation of the initial latents.
  [[nodiscard]] double init_noise_sigma() const noexcept {
    return table_.init_noise_sigma;
  }
  /// True when a step draws noise (DDPM, ancestral, SDE solvers, eta > 0).
  [[nodiscard]] bool is_stochastic() const noexcept;
  /// True when the step that follows `call` draws noise: what decides the
  /// position of a draw in a sequential generator.
  [[nodiscard]] bool draws_noise(int call) const;
  /// Size of the change that a residual at point `call` is compared with:
  /// rms(residual) ≤ tolerance · residual_scale(call). The standard deviation
  /// of the noise which a fully stochastic step arriving at `call` would add,
  ///   σ'/σ · sqrt(σ² − (α/α')² σ'²)
  /// for the step (α, σ) → (α', σ'): the η = 1 posterior of VP models, σ_up of
  /// the Euler family, and defined for flow models alike. Where it vanishes
  /// (the last step arrives at σ' = 0) the value of the point before stands.
  /// Always > 0. 0 ≤ call ≤ num_model_calls().
  [[nodiscard]] double residual_scale(int call) const;

 private:
  Schedule() = default;
  /// Errors: Errc::invalid_argument where a network that predicts noise is
  /// called without signal and nothing clips.
  void check_signs() const;

  ScheduleTable table_;
};

}  // namespace troupe::samplers
