#include "models/boundary_skips.h"

#include <iterator>
#include <utility>

namespace troupe::models {

SplitBoundary split_skips(const Boundary& boundary) {
  SplitBoundary parts;
  for (const NamedTensor& named : boundary) {
    (named.name.starts_with("skip.") ? parts.skips : parts.hidden)
        .push_back(named);
  }
  if (parts.hidden.empty() && !parts.skips.empty()) {
    parts.hidden.push_back({"hidden", parts.skips.back().tensor});
  }
  return parts;
}

Boundary join_skips(Boundary skips, Boundary hidden) {
  std::move(hidden.begin(), hidden.end(), std::back_inserter(skips));
  return skips;
}

}  // namespace troupe::models
