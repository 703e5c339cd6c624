// The part of CoordinatorPolicy that moves tasks: where they run, and what
// their results mean.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {
namespace {

using samplers::Op;
using samplers::Task;

}  // namespace

int CoordinatorPolicy::worker_of(const Sample& sample, const Task& task) const {
  const std::vector<int>& planned = groups_[sample.group].workers;
  const int first =
      planned[static_cast<std::size_t>(task.part) % planned.size()];
  for (int k = 0; k < num_workers(); ++k) {
    const int candidate = (first + k) % num_workers();
    const Worker& worker = workers_[static_cast<std::size_t>(candidate)];
    if (worker.alive && worker.traits.execution_class == class_of(sample)) {
      return candidate;
    }
  }
  return -1;
}

void CoordinatorPolicy::route(const Sample& sample, Task task) {
  const int worker = worker_of(sample, task);
  SampleTask work{sample.index, std::move(task), sample.run};
  if (worker < 0) {
    stranded_.push_back({.work = std::move(work)});
  } else if (options_.method.kind->spreads && work.task.op == Op::evaluate) {
    queues_.push_anywhere(class_of(sample), std::move(work));
  } else {
    queues_.push(worker, std::move(work));
  }
}

void CoordinatorPolicy::route_alone(std::vector<Pending> tasks) {
  for (Pending& pending : tasks) {
    const Sample* sample = sample_of(pending.work);
    if (sample == nullptr) {
      continue;
    }
    const int worker = worker_of(*sample, pending.work.task);
    if (worker < 0) {
      stranded_.push_back(std::move(pending));
    } else {
      queues_.push_alone(worker, std::move(pending));
    }
  }
}

/// Gives every worker grants up to the queue depth, one round at a time so
/// that tasks for anyone spread over all.
void CoordinatorPolicy::fill_workers() {
  std::vector<std::size_t> alive(paces_.size());
  for (const Worker& worker : workers_) {
    alive[static_cast<std::size_t>(worker.traits.execution_class)] +=
        worker.alive ? 1 : 0;
  }
  for (int depth = 1; depth <= options_.queue_depth; ++depth) {
    std::vector<int> share;
    for (std::size_t c = 0; c < alive.size(); ++c) {
      const std::size_t waiting = queues_.num_anywhere(static_cast<int>(c));
      const std::size_t hands = std::max<std::size_t>(alive[c], 1);
      share.push_back(static_cast<int>((waiting + hands - 1) / hands));
    }
    for (int w = 0; w < num_workers(); ++w) {
      const Worker& worker = at(w);
      if (!worker.alive || worker.outstanding >= depth) {
        continue;
      }
      const int own = worker.traits.execution_class;
      auto tasks = queues_.take(w, own, worker.traits.max_rows,
                                share[static_cast<std::size_t>(own)]);
      if (!tasks.empty()) {
        send_grant(w, std::move(tasks));
      }
    }
  }
}

void CoordinatorPolicy::send_grant(int worker, std::vector<Pending> tasks) {
  Worker& to = at(worker);
  Grant grant{next_grant_++, worker, to.epoch, {}, {}, {}};
  for (Pending& pending : tasks) {
    Sample& sample = samples_.at(pending.work.sample_index);
    pending.work.run = sample.run;
    find_values(sample, pending.work.task, grant);
    grant.tasks.push_back(pending.work);
  }
  if (const auto frees = frees_.extract(to.traits.process)) {
    grant.frees = std::move(frees.mapped());
  }
  if (to.outstanding++ == 0) {
    to.last_life = now_;
  }
  grants_.emplace(grant.id, Outstanding{worker, std::move(tasks), grant.frees});
  commands_.push_back(std::move(grant));
}

/// Shares what a worker has spent on a grant among the samples in it.
void CoordinatorPolicy::settle_ticks(Worker& worker, std::uint64_t ticks,
                                     const Outstanding& grant) {
  if (ticks <= worker.settled_ticks) {
    return;
  }
  const auto spent = static_cast<double>(ticks - worker.settled_ticks);
  worker.settled_ticks = ticks;
  for (const Pending& pending : grant.tasks) {
    Sample* sample = sample_of(pending.work);
    if (sample != nullptr && pending.work.task.op != Op::decode) {
      sample->ticks += spent / static_cast<double>(grant.tasks.size());
    }
  }
}

std::set<std::uint64_t> CoordinatorPolicy::apply_results(
    const GrantResult& event, const Outstanding& grant) {
  std::set<std::uint64_t> accepted;
  for (std::size_t i = 0; i < grant.tasks.size() && !ended_; ++i) {
    const SampleTask& work = grant.tasks[i].work;
    Sample* sample = sample_of(work);
    if (sample == nullptr) {
      continue;
    }
    try {
      if (apply_result(*sample, work.task, event.results[i])) {
        accepted.insert(work.sample_index);
      }
    } catch (const Error& error) {
      if (!is_of_sample(error.code())) {
        throw;
      }
      end_sample(work.sample_index, SampleStatus::failed, current_failure());
    }
  }
  return accepted;
}

bool CoordinatorPolicy::apply_result(Sample& sample, const Task& task,
                                     const samplers::TaskResult& result) {
  if (task.op == Op::decode) {
    sample.is_decoded = true;
    bring_home(sample);
    return true;
  }
  const int accepted = sample.method->progress().accepted;
  const bool was_done = sample.method->done();
  const std::optional<std::vector<samplers::Slot>> dead =
      sample.method->apply(result);
  if (!dead) {
    return false;
  }
  if (sample.method->progress().accepted > accepted) {
    sample.ticks = 0;
  }
  free_slots(sample, *dead);
  if (!sample.method->done()) {
    issue_ready(sample);
  } else if (!was_done) {
    finish_method(sample);
  }
  return true;
}

}  // namespace troupe::actors
