#pragma once

#include <optional>

#include "samplers/parallel/method.h"

namespace troupe::samplers {

// The modifier +cache: an evaluation may reuse what an earlier one left, where
// the first block of the network adds nearly the same to the hidden state
// (models/network/block_cache.h). The cache is a slot, so the plan says which
// evaluation that is, and bytes do not depend on who computes what when.

/// Whether evaluations may differ from those of the method without +cache.
[[nodiscard]] bool leaves_out_blocks(const MethodOptions& options);

/// Whether an evaluation of this call leaves a cache, as its second output. The
/// last call of a run does not: all blocks run there.
[[nodiscard]] bool leaves_cache(const MethodOptions& options, int call,
                                int num_calls);

/// The evaluation of a call at the state, without outputs. cache: that it may
/// reuse; all blocks run without one, and in the last call of a run.
[[nodiscard]] Task evaluation(const MethodOptions& options, int call,
                              int num_calls, Slot state,
                              std::optional<Slot> cache);

}  // namespace troupe::samplers
