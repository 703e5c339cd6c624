// The part of CoordinatorPolicy for what goes wrong: tasks that fail, workers
// that end, devices that can do no more.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {
namespace {

/// A job loses fewer GPUs and processes than this. A sample that has begun anew
/// so often would go on doing so.
constexpr std::uint32_t kMostRuns = 32;

Failure lost_too_often(const Pending& pending) {
  return {Errc::job_failed, "coordinator",
          "a task of sample " + std::to_string(pending.work.sample_index) +
              " was lost with its worker: got " +
              std::to_string(pending.attempts) + " losses, expected fewer",
          "look in the log for what ends the workers"};
}

Failure values_gone(std::uint64_t sample_index) {
  return {Errc::job_failed, "coordinator",
          "values of sample " + std::to_string(sample_index) +
              " were lost again and again",
          "look in the log for what ends the processes"};
}

}  // namespace

void CoordinatorPolicy::grant_failed(const GrantResult& event,
                                     Outstanding grant) {
  const Failure& failure = *event.failure;
  const int worker = event.worker;
  const bool all_in_flight =
      std::ranges::all_of(grant.tasks, [this](const Pending& pending) {
        return sample_of(pending.work) != nullptr;
      });
  if (failure.code == Errc::device_lost && event.failed_elsewhere) {
    inputs_lost(failure, grant);
  } else if (failure.code == Errc::device_lost) {
    retire(worker, failure, std::move(grant.tasks));
  } else if (failure.code == Errc::device_full) {
    device_full(failure, worker, std::move(grant));
  } else if (all_in_flight && !is_of_sample(failure.code)) {
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

/// A GPU's memory is its own: fewer rows at once may fit, and if one does not,
/// another device may have more.
void CoordinatorPolicy::device_full(const Failure& failure, int worker,
                                    Outstanding grant) {
  ++recoveries_;
  if (grant.tasks.size() == 1) {
    retire(worker, failure, std::move(grant.tasks));
    return;
  }
  int& most = at(worker).traits.max_rows;
  most = std::min(most, static_cast<int>(grant.tasks.size() / 2));
  for (const Pending& pending : grant.tasks) {
    if (const Sample* sample = sample_of(pending.work)) {
      route(*sample, pending.work.task);
    }
  }
}

/// Everything the worker was to do.
std::vector<Pending> CoordinatorPolicy::take_tasks_of(int index) {
  std::vector<Pending> tasks;
  for (auto it = grants_.begin(); it != grants_.end();) {
    if (it->second.worker == index) {
      std::ranges::move(it->second.tasks, std::back_inserter(tasks));
      // Whether it has got that far is not known. Twice is harmless.
      std::ranges::move(it->second.frees,
                        std::back_inserter(frees_[at(index).traits.process]));
      it = grants_.erase(it);
    } else {
      ++it;
    }
  }
  for (Pending& waiting : queues_.take_all(index)) {
    waiting.work.run = samples_.at(waiting.work.sample_index).run;
    tasks.push_back(std::move(waiting));
  }
  return tasks;
}

void CoordinatorPolicy::lose_worker(int index) {
  Worker& worker = at(index);
  if (!worker.alive) {
    return;
  }
  worker.alive = false;
  worker.outstanding = 0;
  ++recoveries_;
  if (count_losses(index)) {
    // Alone, so that a task that ends its workers is found.
    route_alone(take_tasks_of(index));
  }
}

bool CoordinatorPolicy::count_losses(int index) {
  for (auto& [id, grant] : grants_) {
    if (grant.worker != index) {
      continue;
    }
    for (Pending& pending : grant.tasks) {
      if (++pending.attempts >= options_.max_attempts) {
        end_job(false, lost_too_often(pending));
        return false;
      }
    }
  }
  return true;
}

/// Takes the worker, and with a failed GPU all of its workers, out of the job
/// for good. `lost` are tasks that it held and no longer stands for.
void CoordinatorPolicy::retire(int index, const Failure& cause,
                               std::vector<Pending> lost) {
  const WorkerTraits traits = at(index).traits;
  const bool takes_all =
      traits.device.kind == DeviceKind::cuda && cause.code == Errc::device_lost;
  std::vector<int> hit;
  for (int w = 0; w < num_workers(); ++w) {
    const Worker& worker = at(w);
    const bool is_there = worker.traits.process == traits.process &&
                          worker.traits.device == traits.device;
    if (!worker.gone && (w == index || (takes_all && is_there))) {
      hit.push_back(w);
      commands_.push_back(RetireWorker{w, cause});
    }
  }
  if (hit.empty()) {
    return;
  }
  if (takes_all) {
    lost_memories_.emplace_back(traits.process, traits.device);
    for (auto& [number, sample] : samples_) {
      sample.values.lose(traits.process, traits.device);
    }
  }
  leave(hit, cause, std::move(lost));
}

void CoordinatorPolicy::handle(const ProcessDown& event) {
  if (event.process == kHomeProcess) {
    end_job(false, event.cause);
    return;
  }
  if (!lost_processes_.insert(event.process).second) {
    return;
  }
  std::vector<int> hit;
  for (int w = 0; w < num_workers(); ++w) {
    if (at(w).traits.process == event.process && !at(w).gone) {
      hit.push_back(w);
      if (!count_losses(w)) {
        return;
      }
    }
  }
  for (auto& [number, sample] : samples_) {
    sample.values.lose(event.process);
  }
  if (!hit.empty()) {
    leave(hit, event.cause, {});
  }
  frees_.erase(event.process);
}

/// Workers, one at least, leave the job for good. What they had to do, and
/// `lost`, others do; where a value has gone with them, from the beginning.
void CoordinatorPolicy::leave(const std::vector<int>& leavers,
                              const Failure& cause, std::vector<Pending> lost) {
  for (const int w : leavers) {
    Worker& worker = at(w);
    worker.known = true;
    worker.gone = true;
    worker.alive = false;
    worker.outstanding = 0;
    std::ranges::move(take_tasks_of(w), std::back_inserter(lost));
  }
  lost_.push_back({at(leavers.front()).traits.device, cause});
  if (std::ranges::all_of(workers_, &Worker::gone)) {
    end_job(false, cause);
    return;
  }
  ++recoveries_;
  for (auto& [number, sample] : samples_) {
    const std::optional<std::size_t> same = best_group(class_of(sample));
    if (!same || lacks_values(sample)) {
      begin_anew(sample, same ? *same : *best_group(-1));
    } else if (!is_staffed(sample.group)) {
      place(sample, *same);
    }
  }
  route_alone(std::move(lost));
}

/// What the grant was to read lay on a device that failed: that is found when
/// it is next asked for something, and retired then.
void CoordinatorPolicy::inputs_lost(const Failure& failure,
                                    const Outstanding& grant) {
  ++recoveries_;
  for (const Pending& pending : grant.tasks) {
    if (Sample* sample = sample_of(pending.work); sample != nullptr) {
      begin_again(*sample, failure);
    }
  }
}

/// What the grant was to read was not where it was looked for. Somebody else
/// may hold it; a task that nobody waits for is dropped.
void CoordinatorPolicy::inputs_gone(const Outstanding& grant) {
  for (const Pending& pending : grant.tasks) {
    Sample* sample = sample_of(pending.work);
    if (sample == nullptr) {
      continue;
    }
    if (lacks_values(*sample)) {
      ++recoveries_;
      begin_again(*sample);
    } else {
      route_alone({pending});
    }
  }
}

/// Within its class, unless it has begun too often.
void CoordinatorPolicy::begin_again(Sample& sample,
                                    std::optional<Failure> cause) {
  if (sample.run >= kMostRuns) {
    end_job(false, cause ? std::move(cause) : values_gone(sample.index));
  } else if (!ended_) {
    begin_anew(sample, best_group(class_of(sample)).value_or(sample.group));
  }
}

/// From its first call, on workers of `group`. What still runs of it is not
/// waited for, and writes into slots that nobody reads.
void CoordinatorPolicy::begin_anew(Sample& sample, std::size_t group) {
  queues_.erase_sample(sample.index);
  std::erase_if(stranded_, [&sample](const Pending& pending) {
    return pending.work.sample_index == sample.index;
  });
  drop_runs(sample, sample.run);
  ++sample.run;
  sample.method = options_.make_method();
  sample.values.clear();
  sample.is_decoded = false;
  sample.began = now_;
  sample.ticks = 0;
  place(sample, group);
  issue_ready(sample);
}

}  // namespace troupe::actors
