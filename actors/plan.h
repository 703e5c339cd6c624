#pragma once

#include <span>
#include <vector>

// Parts of a job's logical plan.

namespace troupe::actors {

/// Cuts a row of blocks into `num_segments` contiguous, non-empty segments so
/// that the most expensive one is as cheap as can be. Segment s is
/// [cuts[s], cuts[s + 1]); the result has num_segments + 1 entries.
///
/// Ties take the earliest cuts, so the answer is the same everywhere.
/// Errors: Errc::invalid_argument when num_segments < 1 or there are fewer
///         blocks than segments.
[[nodiscard]] std::vector<int> cut_blocks(std::span<const double> costs,
                                          int num_segments);

/// Which workers serve a sample together. Part p of a sample runs on
/// workers[p modulo the number of workers]; part 0 is the sample's home.
struct WorkerGroup {
  std::vector<int> workers;
  int execution_class = 0;  ///< the one of all its workers
};

/// Cuts the workers of each class into groups of `num_parts`. Workers left over
/// form one smaller group, whose workers can host several parts. `classes`
/// says for every worker which class it belongs to.
[[nodiscard]] std::vector<WorkerGroup> group_workers(
    const std::vector<int>& classes, int num_parts);

}  // namespace troupe::actors
