#pragma once

#include "kernels/core/boundary.h"

namespace troupe::models {

// A network with skips names them "skip." and a number in its boundaries, in
// the order in which they were made, and then "hidden". Where the hidden state
// is the newest skip itself, that alone stands there.

/// A boundary in two: what the next segment reads, and what stays for the
/// segments that take the skips.
struct SplitBoundary {
  Boundary hidden;
  Boundary skips;
};
/// The hidden state has the name "hidden" in any case; it shares the tensor of
/// a skip that it is. Without skips all is hidden.
[[nodiscard]] SplitBoundary split_skips(const Boundary& boundary);

/// A boundary of these skips and this hidden state.
[[nodiscard]] Boundary join_skips(Boundary skips, Boundary hidden);

}  // namespace troupe::models
