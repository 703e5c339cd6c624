#include "actors/live_workers.h"

#include <algorithm>

namespace troupe::actors {
namespace {

double row_of(const LiveWorkers::Load& load) {
  return load.row_seconds / load.num_rows;
}

/// With one more, and the reserve.
double rows_of(const LiveWorkers::Load& load) {
  return load.tasks + 1 + load.reserve;
}

/// When one more row would end at the earliest, if the running pass ends by
/// now.
double end_from(const LiveWorkers::Load& load, double now) {
  return now + row_of(load) * (rows_of(load) - load.at_once);
}

/// When one more row would end, if the running pass takes as long as its rows
/// took on average.
double end_since(const LiveWorkers::Load& load) {
  return load.since + row_of(load) * rows_of(load);
}

}  // namespace

void LiveWorkers::add(int execution_class, int process) {
  const auto c = static_cast<std::size_t>(execution_class);
  classes_.resize(std::max(classes_.size(), c + 1));
  Class& of = classes_[c];
  of.workers.push_back(static_cast<int>(workers_.size()));
  of.idle.add_place();
  of.busy.add_place();
  of.unproven.add_place();
  of_process_[process].push_back(static_cast<int>(workers_.size()));
  workers_.push_back({.execution_class = execution_class,
                      .process = process,
                      .place = of.workers.size() - 1});
}

void LiveWorkers::note(const Worker& worker) {
  Class& of = classes_[static_cast<std::size_t>(worker.execution_class)];
  const Load& load = worker.load;
  std::optional<double> idle;
  std::optional<double> busy;
  std::optional<std::pair<double, double>> unproven;
  const bool takes_part = worker.is_alive && !load.is_left_out;
  if (takes_part && load.row_seconds == 0) {
    unproven = {load.tasks + load.reserve, load.link_seconds};
  } else if (takes_part && load.tasks == 0) {
    idle = row_of(load) * rows_of(load) + load.link_seconds;
  } else if (takes_part) {
    busy = end_since(load) + load.link_seconds;
  }
  of.idle.set(worker.place, idle);
  of.busy.set(worker.place, busy);
  of.unproven.set(worker.place, unproven);
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
  const Worker& planned = workers_[static_cast<std::size_t>(worker)];
  if (planned.is_alive && planned.execution_class == execution_class) {
    return worker;
  }
  const std::set<int>& alive = at(execution_class).alive;
  if (alive.empty()) {
    return -1;
  }
  const auto found = alive.lower_bound(worker);
  return found == alive.end() ? *alive.begin() : *found;
}

/// The keys of passes that take longer than expected are put right on the way,
/// each at most once.
std::optional<std::size_t> LiveWorkers::first_busy(Class& of, double now) {
  for (;;) {
    const std::optional<std::size_t> first = of.busy.first();
    if (!first) {
      return std::nullopt;
    }
    const Load& load =
        workers_[static_cast<std::size_t>(of.workers[*first])].load;
    const double earliest = end_from(load, now) + load.link_seconds;
    if (of.busy.key(*first) >= earliest) {
      return first;
    }
    of.busy.set(*first, earliest);
  }
}

/// Seconds of a row on a worker of the class whose rows were not measured.
double LiveWorkers::usual_row(const Class& of) {
  return of.row_seconds > 0 ? of.row_seconds / of.num_rows : 1.0;
}

int LiveWorkers::least_loaded(int execution_class, double now, int process) {
  Class& of = classes_[static_cast<std::size_t>(execution_class)];
  std::optional<std::pair<double, std::size_t>> best;
  const auto consider = [&best](double end, std::size_t place) {
    best =
        std::min(best.value_or(std::pair(end, place)), std::pair(end, place));
  };
  if (const auto idle = of.idle.first()) {
    consider(of.idle.key(*idle), *idle);
  }
  if (const auto busy = first_busy(of, now)) {
    consider(of.busy.key(*busy) - now, *busy);
  }
  if (const auto unproven = of.unproven.first()) {
    const auto& [rows, link] = of.unproven.key(*unproven);
    consider(usual_row(of) * (rows + 1) + link, *unproven);
  }
  const auto near = of_process_.find(process);
  if (near == of_process_.end() ||
      workers_[static_cast<std::size_t>(near->second.front())]
              .load.link_seconds == 0) {
    return best ? of.workers[best->second] : -1;
  }
  // Workers of `process` itself need no link for the row. The end of each other
  // worker above lacks the link of `process`, so each end here is less by it.
  for (const int w : near->second) {
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    const Load& load = worker.load;
    if (!worker.is_alive || load.is_left_out ||
        worker.execution_class != execution_class) {
      continue;
    }
    const double end =
        load.row_seconds == 0 ? usual_row(of) * rows_of(load)
        : load.tasks == 0
            ? row_of(load) * rows_of(load)
            : std::max(end_since(load), end_from(load, now)) - now;
    consider(end - load.link_seconds, worker.place);
  }
  return best ? of.workers[best->second] : -1;
}

}  // namespace troupe::actors
