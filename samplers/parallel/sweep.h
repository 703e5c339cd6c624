#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/options.h"
#include "samplers/solver.h"

namespace troupe::samplers {

/// What one sweep over the window [from, to) works on.
struct SweepInput {
  const Schedule& schedule;
  const MethodOptions& options;
  NoiseSource& noise;
  std::uint64_t sample_index;
  int from;
  std::vector<SolverState> states;  ///< of points from … to; [0] is frozen
  std::vector<Tensor> outputs;      ///< of the network at from … to − 1
  std::size_t num_guesses;          ///< points after `to` to guess
};

struct SweepOutput {
  std::vector<SolverState> states;  ///< points from + 1 … to, then guesses
  std::vector<double> scalars;      ///< as TaskResult says
};

/// One update of the Picard family, left to right:
///
///   R = step(S_j, m_j);  S_j = history of the sweep so far, latents x_old[j]
///   x_new[j + 1] = R + J · (x_new[j] − x_old[j]),  J = 1 or a_j
///
/// with the difference formed first. Where x_new[j] and x_old[j] have the same
/// bytes the result is R itself, without an addition (−0.0 + 0 is not −0.0): so
/// every converged point has the bytes of the sequential run. The carry acts on
/// latents only; histories and anchors are those of the sweep's own steps.
/// Errors: Errc::non_finite with sample and step.
/// Thread: any.
[[nodiscard]] SweepOutput sweep_window(const SweepInput& input);

/// Errors: Errc::non_finite, naming the sample and the step that made the
/// latents.
void check_finite(const SolverState& state, std::uint64_t sample_index,
                  int call, const Schedule& schedule);

}  // namespace troupe::samplers
