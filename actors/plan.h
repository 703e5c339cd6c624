#pragma once

#include <span>
#include <vector>

#include "samplers/options.h"

// Parts of a job's logical plan.

namespace troupe::actors {

/// Cuts a row of blocks into `num_segments` contiguous, non-empty segments so
/// that the one that takes longest is as quick as can be. Segment s is
/// [cuts[s], cuts[s + 1]); the result has num_segments + 1 entries.
///
/// speeds: of the segments' workers, relative to each other; empty: all alike.
/// Ties take the earliest cuts, so the answer is the same everywhere.
/// Errors: Errc::invalid_argument when num_segments < 1, or there are fewer
///         blocks than segments, or !are_speeds_of(speeds, num_segments).
[[nodiscard]] std::vector<int> cut_blocks(std::span<const double> costs,
                                          int num_segments,
                                          std::span<const double> speeds = {});

/// Whether `speeds` is empty, or has a positive number for each segment.
[[nodiscard]] bool are_speeds_of(std::span<const double> speeds,
                                 int num_segments);

/// Tasks of one model call, at most. For a window, of a round.
[[nodiscard]] int tasks_per_call(const samplers::MethodOptions& options);
/// Tasks that a sample may have ahead at least: those of two calls, which hide
/// the way of a result. At most: kMostAhead, or one call's if they are more.
inline constexpr int kMostAhead = 64;
[[nodiscard]] int least_ahead(const samplers::MethodOptions& options);

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
