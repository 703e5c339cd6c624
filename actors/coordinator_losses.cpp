// The part of CoordinatorPolicy for what goes wrong: tasks that fail, workers
// that end, devices that can do no more.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {
namespace {

/// A machine has fewer GPUs than this. A sample that has begun anew so often
/// would go on doing so.
constexpr std::uint32_t kMostRuns = 32;

Failure lost_too_often(const Pending& pending) {
  return {Errc::job_failed, "coordinator",
          "a task of sample " + std::to_string(pending.work.sample_index) +
              " was lost with its worker: got " +
              std::to_string(pending.attempts) + " losses, expected fewer",
          "look in the log for what ends the workers"};
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
  for (auto& [id, grant] : grants_) {
    if (grant.worker != index) {
      continue;
    }
    for (Pending& pending : grant.tasks) {
      if (++pending.attempts >= options_.max_attempts) {
        end_job(false, lost_too_often(pending));
        return;
      }
    }
  }
  // Alone, so that a task that ends its workers is found.
  route_alone(take_tasks_of(index));
}

/// Takes the worker, and with a failed GPU all of its workers, out of the job
/// for good. `lost` are tasks that it held and no longer stands for.
void CoordinatorPolicy::retire(int index, const Failure& cause,
                               std::vector<Pending> lost) {
  const Device device = at(index).traits.device;
  const bool takes_all =
      device.kind == DeviceKind::cuda && cause.code == Errc::device_lost;
  bool is_news = false;
  for (int w = 0; w < num_workers(); ++w) {
    Worker& worker = at(w);
    const bool is_hit =
        w == index || (takes_all && worker.traits.device == device);
    if (!is_hit || worker.gone) {
      continue;
    }
    is_news = true;
    worker.known = true;
    worker.gone = true;
    worker.alive = false;
    worker.outstanding = 0;
    std::ranges::move(take_tasks_of(w), std::back_inserter(lost));
    commands_.push_back(RetireWorker{w, cause});
  }
  if (!is_news) {
    return;
  }
  lost_.push_back({device, cause});
  if (std::ranges::all_of(workers_, &Worker::gone)) {
    end_job(false, cause);
    return;
  }
  ++recoveries_;
  for (auto& [number, sample] : samples_) {
    const std::optional<std::size_t> same = best_group(class_of(sample));
    const bool is_lost = takes_all && sample.gpus.contains(device.index);
    if (!same || is_lost) {
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
    Sample* sample = sample_of(pending.work);
    if (sample == nullptr) {
      continue;
    }
    if (sample->run >= kMostRuns) {
      end_job(false, failure);
      return;
    }
    begin_anew(*sample, best_group(class_of(*sample)).value_or(sample->group));
  }
}

/// From its first call, on workers of `group`. What still runs of it is not
/// waited for, and writes into slots that nobody reads.
void CoordinatorPolicy::begin_anew(Sample& sample, std::size_t group) {
  queues_.erase_sample(sample.index);
  std::erase_if(stranded_, [&sample](const Pending& pending) {
    return pending.work.sample_index == sample.index;
  });
  ++sample.run;
  sample.method = options_.make_method();
  sample.gpus.clear();
  sample.began = now_;
  sample.ticks = 0;
  place(sample, group);
  issue_ready(sample);
}

}  // namespace troupe::actors
