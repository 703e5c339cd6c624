#include "actors/plan.h"

#include <algorithm>
#include <map>

namespace troupe::actors {

using samplers::MethodKind;

std::vector<WorkerGroup> group_workers(int num_workers, int num_parts) {
  std::vector<WorkerGroup> groups;
  for (int first = 0; first < num_workers; first += num_parts) {
    WorkerGroup group;
    for (int w = first; w < std::min(first + num_parts, num_workers); ++w) {
      group.workers.push_back(w);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<WorkerGroup> group_workers(const std::vector<int>& classes,
                                       int num_parts) {
  std::map<int, std::vector<int>> members;
  for (std::size_t w = 0; w < classes.size(); ++w) {
    members[classes[w]].push_back(static_cast<int>(w));
  }
  std::vector<WorkerGroup> groups;
  for (const auto& [execution_class, workers] : members) {
    for (WorkerGroup& group :
         group_workers(static_cast<int>(workers.size()), num_parts)) {
      for (int& worker : group.workers) {
        worker = workers[static_cast<std::size_t>(worker)];
      }
      group.execution_class = execution_class;
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

int samples_in_flight(MethodKind kind, int num_parts, int max_rows) {
  switch (kind) {
    case MethodKind::sequential:
      return 1;
    case MethodKind::batch:
      return 2 * max_rows;
    case MethodKind::cfg:
    case MethodKind::picard:
    case MethodKind::stale:
      return 2;
    case MethodKind::pipeline:
      return 2 * num_parts;
  }
  return 1;
}

}  // namespace troupe::actors
