#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/reduction.h"
#include "samplers/options.h"
#include "samplers/parallel/method.h"
#include "samplers/solver.h"

namespace troupe::samplers {

/// What the sweep of one point of a round works on.
struct SweepInput {
  const Schedule& schedule;
  NoiseSource& noise;
  std::uint64_t sample_index;
  int call;                 ///< the point j, and the call that leads on from it
  bool is_first;            ///< of its round: its value is final
  SolverState state;        ///< S_j: made in this round, with its history
  Tensor old_here;          ///< x_old[j]
  Tensor old_next;          ///< x_old[j + 1]
  Tensor output;            ///< m_j: of the network at x_old[j]
  std::size_t num_guesses;  ///< points after j + 1 to guess
  InitialGuess guess;
  double carry;  ///< J
  double scale;  ///< of residuals, by the accept rule
};

struct SweepOutput {
  std::vector<SolverState> states;  ///< S_{j + 1}, then guesses
  std::size_t first_reading = 0;    ///< of kReadingsPerPoint
};

/// Numbers that a sweep reads off the point it makes.
inline constexpr std::size_t kReadingsPerPoint = 3;

/// One update of the Picard family; a round does it from left to right:
///
///   R = step(S_j with latents x_old[j], m_j)
///   x_new[j + 1] = R + J · (x_new[j] − x_old[j])
///
/// with x_new[j] the latents of S_j, the difference formed first, and J that of
/// `sweep_coefficients`. Where x_new[j] and x_old[j] have the
/// same bytes the result is R itself, without an addition (−0.0 + 0 is not
/// −0.0): so every converged point has the bytes of the sequential run. The
/// carry acts on latents only; histories and anchors are those of the round's
/// own steps.
///
/// The work is queued, and what it must say is read through `readings`, which
/// the caller waits for: `sweep_scalars` then judges it. All tensors are on
/// ctx's device. Thread: ctx's.
[[nodiscard]] SweepOutput sweep_point(ExecContext& ctx, const SweepInput& input,
                                      kernels::Readings& readings);

/// Coefficients of the sweep that leads on from a call: J and the scale of its
/// residual. J is 1 (Carry::identity), the solver's a_j (coefficient) or the
/// ratio of √(α² + σ²) after and before the step (deviation); of call 0, where
/// every round has the same state, 0. The scale is `settled_scale`
/// (Accept::settled) or Schedule::residual_scale (first_failing).
[[nodiscard]] Coefficients sweep_coefficients(const MethodOptions& options,
                                              const Schedule& schedule,
                                              int call);

/// What a change at a point is compared with under Accept::settled: the share
/// of the clean sample there, α, so that the tolerance is a difference between
/// the clean samples that two sweeps stand for. An error grows by 1/α on its
/// way to the end only where the network follows it; where the share is below a
/// fifth, a fifth of the deviation √(α² + σ²) of the latents stands in. Always
/// > 0. 1 ≤ point ≤ num_model_calls().
[[nodiscard]] double settled_scale(const Schedule& schedule, int point);

/// The scalars of a sweep from the values read.
/// Errors: Errc::non_finite with sample and step.
[[nodiscard]] std::vector<double> sweep_scalars(const SweepInput& input,
                                                const SweepOutput& output,
                                                std::span<const double> values);

}  // namespace troupe::samplers
