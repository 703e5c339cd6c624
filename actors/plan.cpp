#include "actors/plan.h"

#include <algorithm>
#include <map>
#include <span>

namespace troupe::actors {

std::vector<WorkerGroup> group_workers(const std::vector<int>& classes,
                                       int num_parts) {
  std::map<int, std::vector<int>> members;
  for (std::size_t w = 0; w < classes.size(); ++w) {
    members[classes[w]].push_back(static_cast<int>(w));
  }
  const auto parts = static_cast<std::size_t>(num_parts);
  std::vector<WorkerGroup> groups;
  for (const auto& [execution_class, workers] : members) {
    for (std::size_t first = 0; first < workers.size(); first += parts) {
      const auto those = std::span(workers).subspan(
          first, std::min(parts, workers.size() - first));
      groups.push_back({{those.begin(), those.end()}, execution_class});
    }
  }
  return groups;
}

}  // namespace troupe::actors
