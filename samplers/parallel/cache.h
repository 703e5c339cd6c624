#pragma once

#include <optional>

#include "samplers/parallel/method.h"

namespace troupe::samplers {

// The modifier +cache: an evaluation may reuse what an earlier one left, where
// the first block of the network adds nearly the same to the hidden state
// (models/network/block_cache.h). The cache is a slot, so the plan says which
// evaluation that is, and bytes do not depend on who computes what when.

/// Whether evaluations may differ from those of the method without +cache.
inline bool leaves_out_blocks(const MethodOptions& options) {
  return options.kind.has(Modifier::cache) && options.cache_threshold > 0;
}

/// Whether an evaluation of this call leaves a cache, as its second output. The
/// last call of a run does not: all blocks run there.
inline bool leaves_cache(const MethodOptions& options, int call,
                         int num_calls) {
  return options.kind.has(Modifier::cache) && call + 1 < num_calls;
}

/// The evaluation of a call at the state, without outputs. cache: that it may
/// reuse; all blocks run without one, and in the last call of a run.
inline Task evaluation(const MethodOptions& options, int call, int num_calls,
                       Slot state, std::optional<Slot> cache) {
  Task task = task_of(Op::evaluate, call, call + 1, {state});
  if (leaves_cache(options, call, num_calls)) {
    task.op = Op::evaluate_cached;
    task.coefficients = {options.cache_threshold};
    if (cache) {
      task.inputs.push_back(*cache);
    }
  }
  return task;
}

}  // namespace troupe::samplers
