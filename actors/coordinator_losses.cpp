// The part of CoordinatorPolicy for what goes wrong: tasks that fail, workers
// that end, devices that can do no more.

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "actors/coordinator_policy.h"
#include "actors/packer.h"

namespace troupe::actors {
namespace {

/// A sample that has restarted so often, while no process and no GPU was lost,
/// would restart again and again.
constexpr int kMostUnexplainedRuns = 32;

/// A tick that comes so much later than the last one comes late.
constexpr Duration kGap = std::chrono::seconds(2);

/// Processes of one host that end within this time count once.
constexpr Duration kOneIncident = std::chrono::seconds(2);

Failure values_gone(std::uint64_t sample_index) {
  return {Errc::job_failed, "coordinator",
          "values of sample " + std::to_string(sample_index) +
              " were lost again and again",
          "look in the log for what ends the processes, or why values cannot "
          "be copied"};
}

}  // namespace

void CoordinatorPolicy::pass_failed(const GrantResult& event,
                                    const TasksFailed& failed,
                                    std::vector<SampleTask> pass) {
  const Failure& failure = failed.failure;
  // Tasks of a sample that has ended are not in the pass any more.
  const bool all_in_flight = pass.size() == event.grants.size();
  if (failure.code == Errc::device_lost && failed.is_elsewhere) {
    inputs_lost(failure, pass);
  } else if (failure.code == Errc::device_lost) {
    retire(event.worker, failure, std::move(pass));
  } else if (failure.code == Errc::device_full) {
    device_full(event, failure, std::move(pass));
  } else if (all_in_flight && !is_of_sample(failure.code)) {
    end_job(false, failure);
  } else if (!all_in_flight || pass.size() > 1) {
    // A sample that ended took its slots along, so its tasks fail for that
    // alone, and which of several rows is at fault shows when each runs alone.
    route_alone(std::move(pass));
  } else {
    end_sample(pass.front().sample_index, SampleStatus::failed, failure);
  }
}

/// A GPU's memory is its own: fewer rows at once may fit, and if one does not,
/// another device may have more.
void CoordinatorPolicy::device_full(const GrantResult& event,
                                    const Failure& failure,
                                    std::vector<SampleTask> pass) {
  ++recoveries_;
  const auto rows = static_cast<int>(event.grants.size());
  if (rows == 1) {
    retire(event.worker, failure, std::move(pass));
    return;
  }
  int& most = at(event.worker).traits.max_rows;
  most = std::min(most, rows / 2);
  reroute(std::move(pass));
}

/// After a late tick: this process was stopped, or its machine slept. Beats
/// could not be heard meanwhile, so no worker's lease ends for that time.
void CoordinatorPolicy::renew_leases_after_a_gap() {
  if (last_tick_ && now_ - *last_tick_ > kGap) {
    for (Worker& worker : workers_) {
      worker.last_life = now_;
    }
  }
  last_tick_ = now_;
}

Duration CoordinatorPolicy::lease_of(int index) const {
  const Worker& worker = workers_[static_cast<std::size_t>(index)];
  const ClassTimes& times =
      times_[static_cast<std::size_t>(worker.traits.execution_class)];
  Duration slowest{};
  for (const auto& [number, granted] : worker.held) {
    const auto known = times.slowest.find(granted.work.task.op);
    if (known == times.slowest.end()) {
      return std::max(options_.lease.least, options_.lease.unmeasured);
    }
    slowest = std::max(slowest, known->second);
  }
  const auto lease = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(slowest) * options_.lease.factor);
  return std::max(options_.lease.least, lease);
}

/// Takes all tasks of the worker off its list.
std::vector<SampleTask> CoordinatorPolicy::take_tasks_of(int index) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, granted] : at(index).held) {
    numbers.push_back(number);
  }
  std::vector<SampleTask> tasks;
  for (const std::uint64_t number : numbers) {
    tasks.push_back(take_grant(index, number, false));
  }
  return tasks;
}

/// Living workers have ended without having been asked. Their tasks are granted
/// to other workers.
void CoordinatorPolicy::lose_workers(const std::vector<int>& lost) {
  std::vector<SampleTask> tasks;
  weigh_at_ = TimePoint::min();
  for (const int index : lost) {
    set_alive(index, false);
    tally_.lost_worker(at(index).traits.process);
    ++recoveries_;
    std::ranges::move(take_tasks_of(index), std::back_inserter(tasks));
  }
  reroute(std::move(tasks));
}

/// Grants tasks again, by sample and id: a task comes after the tasks that make
/// its inputs.
void CoordinatorPolicy::reroute(std::vector<SampleTask> tasks) {
  std::ranges::stable_sort(tasks, {}, [](const SampleTask& work) {
    return std::pair(work.sample_index, work.task.id);
  });
  for (SampleTask& work : tasks) {
    if (Sample* sample = sample_of(work)) {
      route(*sample, std::move(work));
    }
  }
}

/// Counts a loss against each task of the lost worker's pass: one of them may
/// have ended the worker. The worker has not said which tasks its pass had. The
/// packer's rule says it: a worker takes tasks in the order in which they
/// became ready.
void CoordinatorPolicy::count_losses(int index, const std::string& what,
                                     bool took_process) {
  if (at(index).drains) {
    return;
  }
  std::map<std::pair<std::uint64_t, std::uint64_t>, SampleTask> by_readiness;
  for (const auto& [number, granted] : at(index).held) {
    if (const auto since = ready_since(granted.work)) {
      by_readiness.emplace(std::pair(*since, number), granted.work);
    }
  }
  Packer packer;
  for (auto& [place, work] : by_readiness) {
    packer.push(std::move(work));
  }
  const int process = at(index).traits.process;
  const TaskLoss loss{.worker = index,
                      .process = process,
                      .when = now_,
                      .took_process = took_process,
                      .what = took_process
                                  ? what
                                  : "worker " + std::to_string(index) +
                                        " of process " +
                                        std::to_string(process) + " " + what};
  const auto is_incident_of = [&](const TaskLoss& last) {
    return took_process && last.took_process &&
           is_same_host(last.process, process) &&
           now_ - last.when <= kOneIncident;
  };
  for (const SampleTask& work : packer.next(at(index).traits.max_rows)) {
    Sample* sample = sample_of(work);
    if (sample == nullptr) {
      continue;
    }
    std::vector<TaskLoss>& losses = sample->losses[work.task.id];
    if (!losses.empty() && is_incident_of(losses.back())) {
      continue;
    }
    losses.push_back(loss);
    losses.back().was_alone = work.alone;
    if (options_.max_losses > 0 &&
        std::ranges::count(losses, true, &TaskLoss::was_alone) >=
            options_.max_losses) {
      parked_.emplace(sample->index, work.task.id);
    }
  }
}

/// A process that does not name its machine counts as alone on a machine.
bool CoordinatorPolicy::is_same_host(int process, int other) const {
  const std::uint64_t machine = tally_.machine_of(process);
  return process == other ||
         (machine != 0 && machine == tally_.machine_of(other));
}

bool CoordinatorPolicy::ends_processes(const std::vector<TaskLoss>& losses) {
  return std::ranges::any_of(losses, &TaskLoss::took_process);
}

/// Whether another worker of the process has a task that may end the process.
bool CoordinatorPolicy::is_beside_suspect(int index) {
  const auto may_end = [this](const auto& held) {
    const SampleTask& work = held.second.work;
    const Sample* sample = work.alone ? sample_of(work) : nullptr;
    if (sample == nullptr || !ready_since(work)) {
      return false;
    }
    const auto losses = sample->losses.find(work.task.id);
    return losses != sample->losses.end() && ends_processes(losses->second);
  };
  for (int w = 0; w < num_workers(); ++w) {
    if (w != index && at(w).traits.process == at(index).traits.process &&
        std::ranges::any_of(at(w).held, may_end)) {
      return true;
    }
  }
  return false;
}

/// A task that was lost with its worker goes to another host, or else to
/// another process, or else to another worker. If it has ended a process, it
/// goes to the coordinator's process last of all, because the job would end
/// with that, and two such tasks never run in one process: the end of it would
/// count against both. −1: no worker of the class can take it now.
int CoordinatorPolicy::worker_of_suspect(const Sample& sample,
                                         const std::vector<TaskLoss>& losses) {
  const TaskLoss& last = losses.back();
  const bool may_end = ends_processes(losses);
  const auto cost_of = [&](int w) {
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    const int process = worker.traits.process;
    return std::tuple(may_end && process == kHomeProcess,
                      is_same_host(process, last.process),
                      process == last.process, w == last.worker, worker.heavy);
  };
  int best = -1;
  for (int w = 0; w < num_workers(); ++w) {
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    if (worker.alive && !worker.drains &&
        worker.traits.execution_class == class_of(sample) &&
        !(may_end && is_beside_suspect(w)) &&
        (best < 0 || cost_of(w) < cost_of(best))) {
      best = w;
    }
  }
  return best;
}

/// Whether the job may end with the task at this worker: the task ended a
/// process while it ran alone, and only the coordinator's process is left.
bool CoordinatorPolicy::risks_job(const std::vector<TaskLoss>& losses,
                                  int worker) const {
  return options_.max_losses > 0 && !options_.waits_for_processes &&
         workers_[static_cast<std::size_t>(worker)].traits.process ==
             kHomeProcess &&
         std::ranges::any_of(losses, [](const TaskLoss& loss) {
           return loss.was_alone && loss.took_process;
         });
}

/// When the task became ready: the number of its grant, or of the result that
/// brought its last input. Nothing: an input is still to be made.
std::optional<std::uint64_t> CoordinatorPolicy::ready_since(
    const SampleTask& work) {
  const Sample* sample = sample_of(work);
  std::uint64_t since = work.grant;
  for (const samplers::Slot slot : work.task.inputs) {
    if (sample != nullptr && slot != samplers::kInitialSlot) {
      const auto made = sample->values.since(slot);
      if (!made) {
        return std::nullopt;
      }
      since = std::max(since, *made);
    }
  }
  return since;
}

/// Ends samples with a task that ends one worker after the other.
void CoordinatorPolicy::park_suspects() {
  for (const auto& [index, task] : std::exchange(parked_, {})) {
    const auto found = samples_.find(index);
    if (ended_ || found == samples_.end()) {
      continue;
    }
    const std::vector<TaskLoss>& losses = found->second.losses.at(task);
    constexpr std::size_t kMostShown = 8;
    const std::size_t hidden =
        losses.size() - std::min(losses.size(), kMostShown);
    std::string ends;
    for (const TaskLoss& loss : std::span(losses).subspan(hidden)) {
      ends += (ends.empty() ? "" : "; ") + loss.what +
              (loss.was_alone ? " (it ran alone)" : "");
    }
    end_sample(
        index, SampleStatus::failed,
        Failure{Errc::items_failed, "sample " + std::to_string(index),
                "parked, because a task of it was lost with its worker " +
                    std::to_string(losses.size()) + " times: " + ends,
                "look in the logs of these workers for what ended them; "
                "--max-losses sets how often it is tried"});
  }
}

/// Removes the worker from the job, and with a failed GPU all workers of the
/// GPU. `lost`: tasks of its failed pass.
void CoordinatorPolicy::retire(int index, const Failure& cause,
                               std::vector<SampleTask> lost) {
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
  remove_workers(hit, cause, std::move(lost));
}

void CoordinatorPolicy::handle(const ProcessDown& event) {
  if (event.process == kHomeProcess) {
    end_job(false, event.cause);
    return;
  }
  if (!lost_processes_.insert(event.process).second) {
    return;
  }
  draining_.erase(event.process);
  std::vector<int> hit;
  for (int w = 0; w < num_workers(); ++w) {
    if (at(w).traits.process == event.process && !at(w).gone) {
      hit.push_back(w);
      if (event.has_ended) {
        count_losses(w, event.cause.message, true);
      }
    }
  }
  for (auto& [number, sample] : samples_) {
    sample.values.lose(event.process);
  }
  frees_.erase(event.process);
  links_.remove(event.process);
  tally_.left(event.process, now_);
  remove_workers(hit, event.cause, {});
}

/// Removes workers from the job for good. Other workers get their tasks, and
/// `lost`. A sample that has lost a value goes back to its last cut, or to its
/// first call.
void CoordinatorPolicy::remove_workers(const std::vector<int>& leavers,
                                       const Failure& cause,
                                       std::vector<SampleTask> lost) {
  weigh_at_ = TimePoint::min();
  for (const int w : leavers) {
    Worker& worker = at(w);
    note_known(w);
    if (worker.alive) {
      tally_.lost_worker(worker.traits.process);
    }
    worker.gone = true;
    if (!worker.drains) {
      groups_.remove_worker(w);
    }
    set_alive(w, false);
    std::ranges::move(take_tasks_of(w), std::back_inserter(lost));
  }
  if (!leavers.empty()) {
    const WorkerTraits& first = at(leavers.front()).traits;
    lost_.push_back({first.device, cause, first.process});
    ++recoveries_;
  }
  park_suspects();
  const bool is_done =
      samples_.empty() && next_sample_ == options_.samples.size();
  if (nobody_stays() && !is_done) {
    end_job(false, cause);
  }
  if (ended_) {
    return;
  }
  note_waiting();
  find_groups();
  std::ranges::move(std::exchange(unplaced_, {}), std::back_inserter(lost));
  reroute(std::move(lost));
}

/// An input of the pass lay on a device that failed. The failure of that device
/// is found at its own next pass, and its workers are retired then.
void CoordinatorPolicy::inputs_lost(const Failure& failure,
                                    const std::vector<SampleTask>& pass) {
  ++recoveries_;
  for (const SampleTask& work : pass) {
    if (Sample* sample = sample_of(work); sample != nullptr) {
      restart_in_class(*sample, failure);
    }
  }
}

/// Another process may hold the inputs; a task of an old run is dropped. The
/// result is no sign that the worker's executor lives.
void CoordinatorPolicy::handle(const GrantResult& /*event*/,
                               const InputsGone& gone,
                               std::vector<Answered> pass) {
  for (SampleTask& work : tasks_of(std::move(pass))) {
    Sample* sample = ended_ ? nullptr : sample_of(work);
    if (sample == nullptr) {
      continue;
    }
    for (const RemoteValue& value : gone.values) {
      if (value.name.sample_index == sample->index &&
          value.name.run == sample->run) {
        sample->values.remove(value.name.slot, value.process);
      }
    }
    if (lacks_values(*sample)) {
      ++recoveries_;
      restart_in_class(*sample);
    } else {
      // Who was to make the input may have ended, which is known soon.
      unplaced_.push_back(std::move(work));
    }
  }
}

/// Restarts the sample in its execution class. Ends the job if the sample has
/// had too many runs that no loss explains.
void CoordinatorPolicy::restart_in_class(Sample& sample,
                                         std::optional<Failure> cause) {
  const std::size_t num_lost = lost_processes_.size() + lost_memories_.size();
  if (std::exchange(sample.num_lost, num_lost) != num_lost) {
    sample.unexplained_runs = 0;
  }
  if (++sample.unexplained_runs >= kMostUnexplainedRuns) {
    end_job(false, cause ? std::move(cause) : values_gone(sample.index));
  } else if (!ended_) {
    restart(sample, groups_.best(class_of(sample)).value_or(sample.group));
  }
}

/// Begins the next run of the sample on workers of `group`: from its last cut
/// if the class stays the same, else from the first call. Passes of the old run
/// are not waited for: they write into slots that no task reads.
void CoordinatorPolicy::restart(Sample& sample, std::size_t group) {
  std::erase_if(unplaced_, [&sample](const SampleTask& work) {
    return work.sample_index == sample.index;
  });
  drop_runs(sample, sample.run);
  give_room_back(sample);
  ++sample.run;
  sample.method = options_.make_method();
  sample.values.clear();
  sample.is_decoded = false;
  sample.result = {};
  sample.ticks = 0;
  sample.next_cut.reset();
  sample.withheld.clear();
  sample.rescued.clear();
  place(sample, group);
  if (!restore_cut(sample)) {
    sample.began = now_;
  }
  for (ClassTimes& times : times_) {
    times.search_again_at = TimePoint::min();
  }
  issue_ready(sample);
}

}  // namespace troupe::actors
