// The half of CoordinatorPolicy that moves tasks: where they run, what their
// results mean, and what happens when they are lost.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {
namespace {

using samplers::Op;
using samplers::Task;

/// The error is one sample's own, so the others can go on.
bool is_of_sample(Errc code) { return code == Errc::non_finite; }

Failure lost_too_often(const Pending& pending) {
  return {Errc::job_failed, "coordinator",
          "a task of sample " + std::to_string(pending.work.sample_index) +
              " was lost with its worker: got " +
              std::to_string(pending.attempts) + " losses, expected fewer",
          "look in the log for what ends the workers"};
}

}  // namespace

int CoordinatorPolicy::worker_of(const Sample& sample, const Task& task) const {
  const std::vector<int>& planned = groups_[sample.group].workers;
  const int first =
      planned[static_cast<std::size_t>(task.part) % planned.size()];
  for (int k = 0; k < options_.num_workers; ++k) {
    const int candidate = (first + k) % options_.num_workers;
    if (workers_[static_cast<std::size_t>(candidate)].alive) {
      return candidate;
    }
  }
  return -1;
}

void CoordinatorPolicy::route(const Sample& sample, Task task) {
  const int worker = worker_of(sample, task);
  SampleTask work{sample.index, std::move(task)};
  if (worker < 0) {
    stranded_.push_back({.work = std::move(work)});
  } else if (options_.kind == samplers::MethodKind::picard &&
             work.task.op == Op::evaluate) {
    queues_.push_anywhere(std::move(work));
  } else {
    queues_.push(worker, std::move(work));
  }
}

void CoordinatorPolicy::route_alone(std::vector<Pending> tasks) {
  for (Pending& pending : tasks) {
    const auto found = samples_.find(pending.work.sample_index);
    if (found == samples_.end()) {
      continue;
    }
    const int worker = worker_of(found->second, pending.work.task);
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
  const auto alive = static_cast<std::size_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const Worker& worker) { return worker.alive; }));
  for (int depth = 1; alive > 0 && depth <= options_.queue_depth; ++depth) {
    const auto share =
        static_cast<int>((queues_.num_anywhere() + alive - 1) / alive);
    for (int w = 0; w < options_.num_workers; ++w) {
      const Worker& worker = workers_[static_cast<std::size_t>(w)];
      if (!worker.alive || worker.outstanding >= depth) {
        continue;
      }
      auto tasks = queues_.take(w, options_.max_rows, share);
      if (!tasks.empty()) {
        send_grant(w, std::move(tasks));
      }
    }
  }
}

void CoordinatorPolicy::send_grant(int worker, std::vector<Pending> tasks) {
  Worker& to = workers_[static_cast<std::size_t>(worker)];
  Grant grant{next_grant_++, worker, to.epoch, options_.lease, {}};
  for (const Pending& pending : tasks) {
    grant.tasks.push_back(pending.work);
    // A task that is lost runs again, so its inputs live until the result has
    // arrived; then FreeSlots tells.
    grant.tasks.back().task.frees.clear();
  }
  if (to.outstanding++ == 0) {
    to.last_life = now_;
  }
  grants_.emplace(grant.id, Outstanding{worker, std::move(tasks)});
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
    const auto found = samples_.find(pending.work.sample_index);
    if (found != samples_.end() && pending.work.task.op != Op::decode) {
      found->second.ticks += spent / static_cast<double>(grant.tasks.size());
    }
  }
}

void CoordinatorPolicy::apply_results(const GrantResult& event,
                                      const Outstanding& grant) {
  for (std::size_t i = 0; i < grant.tasks.size() && !ended_; ++i) {
    const SampleTask& work = grant.tasks[i].work;
    const auto found = samples_.find(work.sample_index);
    if (found == samples_.end()) {
      continue;
    }
    Sample& sample = found->second;
    try {
      apply_result(sample, work.task, event.results.at(i));
    } catch (const Error& error) {
      if (!is_of_sample(error.code())) {
        throw;
      }
      end_sample(sample.index, SampleStatus::failed, current_failure());
    }
  }
}

void CoordinatorPolicy::apply_result(Sample& sample, const Task& task,
                                     const samplers::TaskResult& result) {
  if (task.op == Op::decode) {
    end_sample(sample.index, SampleStatus::done, {});
    return;
  }
  const int accepted = sample.method->progress().accepted;
  if (!sample.method->apply(result)) {
    return;
  }
  if (sample.method->progress().accepted > accepted) {
    sample.ticks = 0;
  }
  if (!task.frees.empty()) {
    commands_.push_back(FreeSlots{sample.index, task.frees});
  }
  if (sample.method->done()) {
    finish_method(sample);
  } else {
    issue_ready(sample);
  }
}

void CoordinatorPolicy::grant_failed(const Failure& failure,
                                     Outstanding& grant) {
  const bool all_in_flight = std::all_of(
      grant.tasks.begin(), grant.tasks.end(), [this](const Pending& pending) {
        return samples_.contains(pending.work.sample_index);
      });
  if (all_in_flight && !is_of_sample(failure.code)) {
    end_job(false, failure);
  } else if (!all_in_flight || grant.tasks.size() > 1) {
    // A sample that ended took its slots along, so its tasks fail for that
    // alone, and which of several rows is at fault shows when each runs alone.
    route_alone(std::move(grant.tasks));
  } else {
    end_sample(grant.tasks.front().work.sample_index, SampleStatus::failed,
               failure);
  }
}

void CoordinatorPolicy::lose_worker(int index) {
  Worker& worker = workers_[static_cast<std::size_t>(index)];
  if (!worker.alive) {
    return;
  }
  worker.alive = false;
  worker.outstanding = 0;
  ++recoveries_;
  std::vector<Pending> lost;
  for (auto it = grants_.begin(); it != grants_.end();) {
    if (it->second.worker == index) {
      std::move(it->second.tasks.begin(), it->second.tasks.end(),
                std::back_inserter(lost));
      it = grants_.erase(it);
    } else {
      ++it;
    }
  }
  for (Pending& pending : lost) {
    if (++pending.attempts >= options_.max_attempts) {
      end_job(false, lost_too_often(pending));
      return;
    }
  }
  // Alone, so that a task that ends its workers is found.
  route_alone(std::move(lost));
  route_alone(queues_.take_all(index));
}

}  // namespace troupe::actors
