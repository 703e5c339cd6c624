#include "actors/plan.h"

#include <algorithm>
#include <map>

namespace troupe::actors {

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

}  // namespace troupe::actors
