#pragma once

#include "samplers/parallel/method.h"

namespace troupe::samplers {

/// Coefficients of the sweep that leads on from a call: J, by the policy of
/// MethodOptions::carry, and the scale of its residual, by the accept rule
/// (README.md). J is 0 for call 0, where every round has the same state, and
/// for Carry::deviation where a step begins at SolverRow's anchor, which the
/// sweep has corrected already: with 1 no change of UniPC's latents ever fades.
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

}  // namespace troupe::samplers
