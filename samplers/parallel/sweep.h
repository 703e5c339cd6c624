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
  int first_call;           ///< of its round
  Tensor first_here;        ///< x there; linear_x0 with guesses, else empty
  Tensor first_output;      ///< m there; likewise
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
/// ratio of √(α² + σ²) after and before the step (deviation; 0 where a step
/// begins at SolverRow's anchor, which the sweep has corrected already: with 1
/// no change of UniPC's latents ever fades); of call 0, where every round has
/// the same state, 0. The scale is `settled_scale`
/// (Accept::settled) or Schedule::residual_scale (first_failing).
[[nodiscard]] Coefficients sweep_coefficients(const MethodOptions& options,
                                              const Schedule& schedule,
                                              int call);

/// What a change at a point is compared with under Accept::settled:
/// Schedule::residual_scale, but at least a tenth of the deviation √(α² + σ²)
/// of the latents. What a step makes of a change differs from J times it by
/// about the share of the noise that the step removes. That share is small
/// where much noise is left, and there the scale is large, larger than what a
/// network's rounding moves: ε in bf16 differs by 0.0035 after any change of
/// its input, which over √8 steps is 0.005, and the scale is 0.57. The last
/// scales of a run fall towards 0, faster than what a change does there. Always
/// > 0. 1 ≤ point ≤ num_model_calls().
[[nodiscard]] double settled_scale(const Schedule& schedule, int point);

/// The scalars of a sweep from the values read.
/// Errors: Errc::non_finite with sample and step.
[[nodiscard]] std::vector<double> sweep_scalars(const SweepInput& input,
                                                const SweepOutput& output,
                                                std::span<const double> values);

}  // namespace troupe::samplers
