#pragma once

#include <cstddef>
#include <vector>

#include "samplers/parallel/marked_graph.h"

namespace troupe::samplers {

/// Between which of the solver's steps a firing of a stale pipeline can run.
struct Reach {
  int after = -1;     ///< the last solver step that it needs; -1: none
  int needed_by = 0;  ///< the first solver step that needs it
};

/// First of the initial state, then of the firings, in their order.
[[nodiscard]] std::vector<Reach> reaches(const MarkedGraph& graph,
                                         const std::vector<Firing>& firings,
                                         int num_calls);

/// How many solver steps `num_tasks` tasks of a run are for, rounded up.
[[nodiscard]] int steps_of(int num_tasks, std::size_t num_firings,
                           int num_calls);

/// MethodRow::most_live of the stale method.
[[nodiscard]] LiveValues stale_live(const MethodOptions& options, int num_calls,
                                    int max_open);

}  // namespace troupe::samplers
