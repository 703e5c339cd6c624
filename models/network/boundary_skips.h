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
/// The hidden state is always named "hidden". Where the hidden state is also a
/// skip, both names share one tensor. A boundary without skips is hidden state
/// only.
[[nodiscard]] SplitBoundary split_skips(const Boundary& boundary);

/// A boundary of these skips and this hidden state.
[[nodiscard]] Boundary join_skips(Boundary skips, Boundary hidden);

}  // namespace troupe::models
