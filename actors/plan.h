#pragma once

#include <vector>

namespace troupe::actors {

/// Which workers serve a sample together. Part p of a sample runs on
/// workers[p modulo the number of workers]; part 0 is the sample's home.
struct WorkerGroup {
  std::vector<int> workers;
  int execution_class = 0;  ///< the one of all its workers
};

/// Cuts the workers of each class into groups of `num_parts`; workers left over
/// form one smaller group that hosts several parts each. `classes` says for
/// every worker which class it belongs to. Part of the logical plan.
[[nodiscard]] std::vector<WorkerGroup> group_workers(
    const std::vector<int>& classes, int num_parts);

}  // namespace troupe::actors
