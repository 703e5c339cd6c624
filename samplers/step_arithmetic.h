#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/elementwise.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"

// A step's arguments, and the arithmetic that the solvers' step rules share:
// the clean sample and the noise of an output, clipping, sums. Internal to
// samplers.

namespace troupe::samplers {

/// Where a new tensor's memory comes from: `lasting` outlives the step,
/// `scratch` is the workspace's and dead when the step ends. What goes into a
/// SolverState is lasting.
enum class Memory : std::uint8_t { lasting, scratch };
[[nodiscard]] Tensor new_tensor(ExecContext& ctx, Memory memory,
                                const Shape& shape);

/// One step's arguments, checked; a workspace scope is open.
struct StepInput {
  ExecContext& ctx;
  const Schedule& schedule;
  int from;
  int to;
  const SolverState& state;
  Tensor output;    ///< [C, …]: the prediction
  Tensor variance;  ///< [C, …]: learned variance, or empty
  std::uint64_t sample_index;
  NoiseSource& noise;

  [[nodiscard]] NoiseLevel here() const { return schedule.level(from); }
  [[nodiscard]] NoiseLevel there() const { return schedule.arrival(to); }
  /// Unit noise of this step, shaped like the latents; scratch. Empty where the
  /// schedule draws none. Always drawn on the host, so that every device gets
  /// the same bits.
  [[nodiscard]] Tensor draw() const;
};

/// latents · x + output · m, of the latents x and the model output m. The clean
/// sample and the noise that an output implies are such forms, whatever the
/// network predicts.
struct LinearForm {
  double latents = 0.0;
  double output = 0.0;
};
/// What the output of `call` says: the clean sample, and the noise.
[[nodiscard]] LinearForm clean_form(const Schedule& schedule, int call);
[[nodiscard]] LinearForm noise_form(const Schedule& schedule, int call);

/// dx/dσ = (x − x0)/σ where α = 1: the noise that the output of `call` implies.
[[nodiscard]] LinearForm slope_form(const Schedule& schedule, int call);

/// Σ coefficient · tensor as a new tensor. Left out are terms of coefficient 0
/// (0 · inf is not wanted) and those of an empty tensor, which the first is
/// not.
[[nodiscard]] Tensor weighted_sum(ExecContext& ctx, Memory memory,
                                  std::initializer_list<kernels::Term> terms);
[[nodiscard]] Tensor apply(ExecContext& ctx, Memory memory,
                           const LinearForm& form, const Tensor& latents,
                           const Tensor& output);

/// The clean sample that the output of `call` implies, not clipped. Where ᾱ is
/// 0 an output that predicts noise tells its sign alone: ±∞ (NaN where it
/// equals the latents), as in diffusers; schedules allow that only if it is
/// clipped.
[[nodiscard]] Tensor read_clean(ExecContext& ctx, Memory memory,
                                const Schedule& schedule, int call,
                                const Tensor& latents, const Tensor& output);
/// How much of the latents the clean sample contains: its form's factor, 0
/// where only the sign is known. For carry coefficients.
[[nodiscard]] double clean_slope(const Schedule& schedule, int call);

/// A state with such a sum for its latents, without a history.
[[nodiscard]] SolverState summed_state(
    const StepInput& in, std::initializer_list<kernels::Term> terms);
/// Adds the output of this step and those before it to the history of `next`:
/// at most `most` of them.
void remember(const StepInput& in, const Tensor& output, std::size_t most,
              SolverState& next);

/// Clips to ±clip_sample_range (where the solver does, `may_clip`) or applies
/// dynamic thresholding (Saharia et al. 2022, arXiv:2205.11487, §2.3). The
/// quantile is taken on the host: on a GPU thresholding waits for the queue.
void clip_clean(ExecContext& ctx, const ScheduleOptions& options, bool may_clip,
                Tensor& clean);
/// The clean sample, clipped.
[[nodiscard]] Tensor clean_sample(const StepInput& in, Memory memory);

}  // namespace troupe::samplers
