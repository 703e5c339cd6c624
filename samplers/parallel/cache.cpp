#include "samplers/parallel/cache.h"

namespace troupe::samplers {

bool leaves_out_blocks(const MethodOptions& options) {
  return options.kind.has(Modifier::cache) && options.cache_threshold > 0;
}

bool leaves_cache(const MethodOptions& options, int call, int num_calls) {
  return options.kind.has(Modifier::cache) && call + 1 < num_calls;
}

Task evaluation(const MethodOptions& options, int call, int num_calls,
                Slot state, std::optional<Slot> cache) {
  Task task{.op = Op::evaluate,
            .from = call,
            .to = call + 1,
            .timestep_call = call,
            .inputs = {state}};
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
