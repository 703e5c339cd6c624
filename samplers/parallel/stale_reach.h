#pragma once

#include <cstddef>
#include <vector>

#include "samplers/parallel/marked_graph.h"

namespace troupe::samplers {

/// Where a firing of a stale pipeline stands between the solver's steps.
struct Reach {
  int after = -1;     ///< the last solver step that it needs; -1: none
  int needed_by = 0;  ///< the first solver step that needs it
};

/// By slot: first the initial state's, then those of the firings in their
/// order.
[[nodiscard]] std::vector<Reach> reaches(const MarkedGraph& graph,
                                         const std::vector<Firing>& firings,
                                         int num_calls);

/// Steps that so many tasks of a run take.
[[nodiscard]] int steps_of(int num_tasks, std::size_t num_firings,
                           int num_calls);

/// MethodRow::most_live of the stale method.
[[nodiscard]] LiveValues stale_live(const MethodOptions& options, int num_calls,
                                    int max_open);

}  // namespace troupe::samplers
