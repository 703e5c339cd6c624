#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "samplers/solver.h"

// Drafts: latents of points that the solver has not come to yet, and what a
// step makes of an output that the network gave for a draft.

namespace troupe::samplers {

/// J of the step from a call, of an output that the network gave for a draft:
/// what the step's result changes by with the latents. For Gaussian data of
/// deviation s along the change, the clean sample that a network sees changes
/// by r = α s² ÷ (α² s² + σ²), and J is α′ r + σ′ (1 − α r) ÷ σ. 0 where a step
/// begins at SolverRow's anchor (see sweep_coefficients).
[[nodiscard]] double response_carry(const Schedule& schedule, int call);

/// The evaluations of the network that drafts follow from: the newest one, and
/// an older one. Without an older one its tensors are empty.
struct CleanLine {
  int call = 0;
  Tensor latents;  ///< that the network saw
  Tensor output;
  int older_call = 0;
  Tensor older_latents;
  Tensor older_output;
};

/// Goes on from point `from` by so many of the solver's own steps, with their
/// own noise, as if clean samples lay on the line through those of the two
/// evaluations, or stayed as in the newest one if there is no other. Clean
/// samples, since a network that is off by δ sees noise that is off by δ/σ, and
/// a draft made of it would be off by more each time. Returns the points in
/// their order, without histories. All tensors are on ctx's device. Thread:
/// ctx's.
[[nodiscard]] std::vector<SolverState> coast(
    ExecContext& ctx, const Schedule& schedule, NoiseSource& noise,
    std::uint64_t sample_index, const CleanLine& line, int from,
    SolverState state, std::size_t num_steps);

}  // namespace troupe::samplers
