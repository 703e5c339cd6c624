#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"

namespace troupe::samplers {

/// Everything a solver remembers at one point of the chain: a value that can be
/// copied, sent and checkpointed. Tensors in it are never written again; they
/// may live on a device.
struct SolverState {
  Tensor latents;  ///< x at this point, [C, …] f32
  /// Converted outputs (PNDM: as the network gave them), newest first.
  std::vector<Tensor> history;
  std::vector<int> history_calls;  ///< the call each of them came from
  /// Heun, PNDM: x before a step's first stage; UniPC: corrected sample.
  Tensor anchor;
  /// Heun: derivative of its first stage; PNDM: outputs of a step, weighted.
  Tensor slope;
  int order = 0;  ///< multistep: order of the step taken last
};

/// Tensors of the latents' shape that a state of this schedule holds, at most.
[[nodiscard]] int most_state_tensors(const Schedule& schedule);

// All of these queue work on ctx's device, where their tensors are and their
// results will be; nothing waits, but for dynamic thresholding (its quantile is
// taken on the host). Thread: ctx's.

/// The state before call 0: unit noise scaled by init_noise_sigma().
/// Errors: Errc::shape_mismatch unless unit_noise is [C, …] f32.
[[nodiscard]] SolverState initial_state(ExecContext& ctx,
                                        const Schedule& schedule,
                                        const Tensor& unit_noise);

/// What the network sees at `call` (Euler divides by sqrt(σ²+1)): the latents
/// themselves, not a copy, where the solver changes nothing.
[[nodiscard]] Tensor scale_model_input(ExecContext& ctx,
                                       const Schedule& schedule, int call,
                                       const Tensor& latents);

/// Advances from model call `from` to `to` (usually from + 1; num_model_calls()
/// ends the run). Pure: same arguments, same bits, on any thread, on every
/// device and with every C library: levels hold their logarithms, and the rest
/// is + − × ÷ and square roots.
///
/// Shapes: state.latents [C, …] f32; model_output [C or 2C, …] f32, raw
///         network output of call `from` in the schedule's prediction type.
///         Of 2C channels the second half is a learned variance: DDPM with
///         variance_type learned or learned_range uses it, all others drop it.
/// Jumps:  to > from + 1 leaves out the points between; multistep solvers use
///         the history they have at its true positions. Heun jumps from a
///         first stage anywhere, from a second stage to a first one; PNDM from
///         a step's first or last stage to a first one.
/// Sweeps: state.latents may be replaced by another guess of the same point
///         while history, history_calls, anchor, slope and order stay those of
///         the step before: that is Φ of the Picard family. No solver keeps a
///         second copy of the latents of the point it stands at.
/// Noise:  drawn from `noise` for (sample_index, from) by stochastic solvers,
///         always on the host.
/// Errors: Errc::invalid_argument, Errc::shape_mismatch.
[[nodiscard]] SolverState step(ExecContext& ctx, const Schedule& schedule,
                               int from, int to, const SolverState& state,
                               const Tensor& model_output,
                               std::uint64_t sample_index, NoiseSource& noise);

/// a = ∂(next latents)/∂(latents) with the model output held fixed: what the
/// Picard family multiplies its carry with. It is that of the solver's
/// first-order rule from `from` to `to`, without clipping, history or
/// corrector.
[[nodiscard]] double carry_coefficient(const Schedule& schedule, int from,
                                       int to);

/// Whether the network scales the noise of the steps (DDPM).
[[nodiscard]] bool learns_variance(const ScheduleOptions& options);

/// The standard deviation of the noise that a step adds, the same for all
/// elements; 0 where it adds none. Errors: Errc::unsupported where the network
/// scales it.
[[nodiscard]] double step_deviation(const Schedule& schedule, int from, int to);

/// The clean sample that `model_output` implies at `call`, before clipping
/// rules of the solver; used by previews and the constant-x0 initial guess.
[[nodiscard]] Tensor denoised(ExecContext& ctx, const Schedule& schedule,
                              int call, const Tensor& latents,
                              const Tensor& model_output);

/// The model output that implies this clean sample at `call`: the inverse of
/// `denoised`. Of a network that learns its variance, with that of `like`, an
/// output near it. Where no output implies it (no noise is left), `like`.
[[nodiscard]] Tensor output_for(ExecContext& ctx, const Schedule& schedule,
                                int call, const Tensor& latents,
                                const Tensor& clean, const Tensor& like);

/// The latents at point `to` if the clean sample and the noise implied at
/// `from` stayed the same, the clean sample clipped where the solver clips it:
/// the constant-x0 guess. Deterministic.
[[nodiscard]] Tensor extrapolate(ExecContext& ctx, const Schedule& schedule,
                                 int from, int to, const Tensor& latents,
                                 const Tensor& model_output);

}  // namespace troupe::samplers
