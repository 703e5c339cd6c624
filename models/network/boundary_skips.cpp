#include "models/network/boundary_skips.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::models {

SplitBoundary split_skips(const Boundary& boundary) {
  SplitBoundary parts;
  for (const NamedTensor& named : boundary) {
    (named.name.starts_with("skip.") ? parts.skips : parts.hidden)
        .push_back(named);
  }
  const bool has_hidden = std::ranges::any_of(
      parts.hidden,
      [](const NamedTensor& named) { return named.name == "hidden"; });
  if (!has_hidden && !parts.skips.empty()) {
    parts.hidden.insert(parts.hidden.begin(),
                        {"hidden", parts.skips.back().tensor});
  }
  return parts;
}

Boundary join_skips(Boundary skips, Boundary hidden) {
  std::move(hidden.begin(), hidden.end(), std::back_inserter(skips));
  return skips;
}

}  // namespace troupe::models
