#pragma once

#include <span>
#include <vector>

namespace troupe::actors {

/// Cuts a row of blocks into `num_segments` contiguous, non-empty segments so
/// that the most expensive one is as cheap as can be. Segment s is
/// [cuts[s], cuts[s + 1]); the result has num_segments + 1 entries.
///
/// Ties take the earliest cuts, so the answer is the same everywhere: it is
/// part of the logical plan.
/// Errors: Errc::invalid_argument when num_segments < 1 or there are fewer
///         blocks than segments.
[[nodiscard]] std::vector<int> cut_blocks(std::span<const double> costs,
                                          int num_segments);

}  // namespace troupe::actors
