#include "actors/live_workers.h"

#include <algorithm>

namespace troupe::actors {

LiveWorkers::LiveWorkers(const std::vector<int>& classes) {
  for (std::size_t w = 0; w < classes.size(); ++w) {
    const auto c = static_cast<std::size_t>(classes[w]);
    classes_.resize(std::max(classes_.size(), c + 1));
    workers_.push_back(
        {.execution_class = classes[w], .place = classes_[c].workers.size()});
    classes_[c].workers.push_back(static_cast<int>(w));
  }
  for (Class& of : classes_) {
    of.ends = FirstLeast<double>(of.workers.size());
    of.unproven = FirstLeast<int>(of.workers.size());
  }
}

void LiveWorkers::note(const Worker& worker) {
  Class& of = classes_[static_cast<std::size_t>(worker.execution_class)];
  const Load& load = worker.load;
  const bool is_known = load.row_seconds > 0;
  std::optional<double> end;
  std::optional<int> outstanding;
  if (worker.is_alive && is_known) {
    end = load.row_seconds / load.num_rows * (load.outstanding + 1);
  } else if (worker.is_alive) {
    outstanding = load.outstanding;
  }
  of.ends.set(worker.place, end);
  of.unproven.set(worker.place, outstanding);
}

void LiveWorkers::set_alive(int w, bool is_alive) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  Class& of = classes_[static_cast<std::size_t>(worker.execution_class)];
  worker.is_alive = is_alive;
  if (is_alive) {
    of.alive.insert(w);
  } else {
    of.alive.erase(w);
  }
  note(worker);
}

void LiveWorkers::set_load(int w, const Load& load) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  Class& of = classes_[static_cast<std::size_t>(worker.execution_class)];
  of.row_seconds += load.row_seconds - worker.load.row_seconds;
  of.num_rows += load.num_rows - worker.load.num_rows;
  worker.load = load;
  note(worker);
}

int LiveWorkers::next(int execution_class, int worker) const {
  const std::set<int>& alive = at(execution_class).alive;
  if (alive.empty()) {
    return -1;
  }
  const auto found = alive.lower_bound(worker);
  return found == alive.end() ? *alive.begin() : *found;
}

int LiveWorkers::least_loaded(int execution_class) const {
  const Class& of = at(execution_class);
  const std::optional<std::size_t> known = of.ends.first();
  const std::optional<std::size_t> unproven = of.unproven.first();
  if (!known && !unproven) {
    return -1;
  }
  if (!known || !unproven) {
    return of.workers[known ? *known : *unproven];
  }
  const double usual = of.row_seconds / of.num_rows;
  const double end = usual * (of.unproven.key(*unproven) + 1);
  const double known_end = of.ends.key(*known);
  const bool takes_known =
      known_end < end || (known_end == end && *known < *unproven);
  return of.workers[takes_known ? *known : *unproven];
}

}  // namespace troupe::actors
