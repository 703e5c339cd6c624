// The part of CoordinatorPolicy for new workers, joining processes and draining
// processes. A draining process gives back the tasks that it has not begun.
// Values that no other process holds are copied to the coordinator's process.

#include <algorithm>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {
namespace {

/// The speed of earlier jobs counts for so many rows: a worker that has become
/// slower is soon found out, and one slow pass, as the first often is, changes
/// little.
constexpr double kEarlierRows = 4;

constexpr const char* kAgain = "start its worker again";

Failure unfit(const char* what, const char* hint) {
  return {Errc::invalid_argument, "coordinator", what, hint};
}

}  // namespace

using samplers::Slot;

/// Adds a worker with the next number. It belongs to no group yet.
void CoordinatorPolicy::add_worker(const WorkerTraits& traits) {
  Worker& worker = workers_.emplace_back();
  worker.traits = traits;
  worker.traits.max_rows = rows_per_forward(traits, options_.method);
  if (traits.row_seconds > 0) {
    worker.num_rows = kEarlierRows;
    worker.row_seconds = kEarlierRows * traits.row_seconds;
    worker.usual_row_seconds = traits.row_seconds;
  }
  live_.add(traits.execution_class, traits.process);
  note_load(num_workers() - 1);
  tally_.add_worker(traits.process, traits.threads);
  note_class(traits.execution_class);
  ++num_unknown_;
  can_lose_values_ = can_lose_values_ || traits.process != kHomeProcess ||
                     traits.device.kind != DeviceKind::cpu;
}

/// From now on this class is known, and every class with a lower number.
void CoordinatorPolicy::note_class(int execution_class) {
  const auto c = static_cast<std::size_t>(execution_class);
  times_.resize(std::max(times_.size(), c + 1));
}

/// The plan's parts stay as they are: see GroupLoads::add_worker.
void CoordinatorPolicy::handle(const ProcessJoined& event) {
  std::optional<Failure> flaw = flaw_of(event);
  if (!flaw) {
    // JobClasses keeps the numbers that it gave, even if the process is
    // refused: the next process may name them.
    for (const WorkerTraits& traits : event.workers) {
      note_class(traits.execution_class);
    }
    flaw = lack_of_room(event);
  }
  if (flaw) {
    flaw->message = "process " + std::to_string(event.process) +
                    " cannot join: " + flaw->message;
    commands_.emplace_back(RefuseProcess{event.process, std::move(*flaw)});
    return;
  }
  if (event.value_budget > 0) {
    options_.value_budgets[event.process] = event.value_budget;
  }
  tally_.set_means(event.process, event.means);
  const int first_worker = num_workers();
  for (WorkerTraits traits : event.workers) {
    traits.process = event.process;
    add_worker(traits);
    groups_.add_worker(num_workers() - 1, traits.execution_class,
                       capacity_of(at(num_workers() - 1).traits));
    if (const auto group = groups_.group_of(num_workers() - 1)) {
      groups_.set_row_seconds(*group, row_time(*group));
    }
  }
  set_room();
  commands_.emplace_back(
      AdmitProcess{event.process, first_worker, num_workers() - first_worker});
  note_waiting();
}

/// Why the process cannot join; nothing: it can.
std::optional<Failure> CoordinatorPolicy::flaw_of(
    const ProcessJoined& event) const {
  if (lost_processes_.contains(event.process)) {
    return unfit("it left the job, or was lost, before it had joined", kAgain);
  }
  if (event.process <= kHomeProcess ||
      std::ranges::any_of(workers_, [&event](const Worker& worker) {
        return worker.traits.process == event.process;
      })) {
    return unfit("another process has its place in the job", kAgain);
  }
  if (event.workers.empty()) {
    return unfit("it has no workers", "give it some with --workers");
  }
  auto num_classes = static_cast<int>(times_.size());
  for (const WorkerTraits& traits : event.workers) {
    if (traits.execution_class < 0 || traits.execution_class > num_classes ||
        traits.max_rows < 0) {
      return unfit("what it says of its workers does not fit together",
                   "use the same build of Troupe for all processes of a job");
    }
    num_classes = std::max(num_classes, traits.execution_class + 1);
  }
  return std::nullopt;
}

/// Which memory has no room for one sample: of the new process, or the home
/// memory with the copies for cuts, which are taken from now on. Nothing: all
/// have room.
std::optional<Failure> CoordinatorPolicy::lack_of_room(
    const ProcessJoined& event) const {
  std::vector<std::pair<ValueMemory, std::uint64_t>> budgets = {
      {{event.process}, event.value_budget},
      {kHomeMemory, budget_of(kHomeMemory)}};
  for (const WorkerTraits& traits : event.workers) {
    budgets.emplace_back(memory_of(event.process, traits.device),
                         traits.value_budget);
  }
  for (const auto& [memory, budget] : budgets) {
    const std::uint64_t needed = sample_bytes(memory, true);
    if (budget > 0 && budget < needed) {
      return no_room(memory, budget, needed);
    }
  }
  return std::nullopt;
}

void CoordinatorPolicy::handle(const DrainProcess& event) {
  if (event.process == kHomeProcess ||
      lost_processes_.contains(event.process) ||
      !draining_.insert(event.process).second) {
    return;
  }
  for (int w = 0; w < num_workers(); ++w) {
    Worker& worker = at(w);
    if (worker.traits.process == event.process && !worker.gone) {
      note_known(w);
      worker.drains = true;
      live_.set_alive(w, false);
      groups_.remove_worker(w);
      recall(w);
    }
  }
  if (nobody_stays()) {
    end_job(false, Failure{Errc::job_failed,
                           "coordinator",
                           "the last worker has left the job",
                           {}});
    return;
  }
  find_groups();
  reroute(std::exchange(unplaced_, {}));
}

/// Whether every worker has gone or drains. A draining worker gets no more
/// tasks, so samples in flight would never end. A job that waits for processes
/// goes on when one joins.
bool CoordinatorPolicy::nobody_stays() const {
  return !options_.waits_for_processes &&
         std::ranges::all_of(
             workers_, [](const Worker& w) { return w.gone || w.drains; });
}

/// Workers have left. A sample without a home group gets a group of its class,
/// or, if the options allow, restarts in another class. Without any group it
/// waits.
void CoordinatorPolicy::find_groups() {
  using config::ClassChange;
  const std::optional<std::size_t> other = groups_.best(-1);
  std::vector<std::uint64_t> refused;
  for (auto& [number, sample] : samples_) {
    const std::optional<std::size_t> same = groups_.best(class_of(sample));
    if (!same && other && options_.on_class_change == ClassChange::refuse) {
      refused.push_back(number);
      continue;
    }
    const std::optional<std::size_t> any =
        same || options_.on_class_change == ClassChange::wait ? same : other;
    const bool lacks = lacks_values(sample);
    is_deserted_ = is_deserted_ || !any;
    if (lacks || (any && !same)) {
      restart(sample, any.value_or(sample.group));
    } else if (any && !groups_.is_staffed(sample.group)) {
      place(sample, *any);
    } else {
      recall_misplaced(sample);  // a spare may have taken a place
    }
  }
  refuse_class_change(refused);
}

/// Fails samples whose class has gone, because the options let no other class
/// make them.
void CoordinatorPolicy::refuse_class_change(
    const std::vector<std::uint64_t>& samples) {
  for (const std::uint64_t index : samples) {
    if (!ended_) {
      end_sample(
          index, SampleStatus::failed,
          Failure{Errc::another_class, "sample " + std::to_string(index),
                  "the last worker of its execution class has gone",
                  "--on-class-change begin-anew lets another class make it"});
    }
  }
}

/// Asks the worker to return a task, behind the grants that are still to be
/// sent. Another worker gets the task only when it was returned.
void CoordinatorPolicy::recall(int index, std::uint64_t grant) {
  const std::uint32_t epoch = at(index).epoch;
  if (recalls_.empty() || recalls_.back().worker != index ||
      recalls_.back().epoch != epoch) {
    recalls_.push_back({index, epoch, {}});
  }
  recalls_.back().grants.push_back(grant);
}

/// Recalls all tasks that the worker holds.
void CoordinatorPolicy::recall(int index) {
  for (const auto& [number, granted] : at(index).held) {
    recall(index, number);
  }
}

/// Whether a task is not at its worker any more. A row that a slower worker has
/// left to the other one stays there.
bool CoordinatorPolicy::is_misplaced(const Sample& sample,
                                     const samplers::Task& task,
                                     int holder) const {
  if (spreads(task) || task.op->stays_beside) {
    return false;
  }
  const int planned = planned_worker(sample, task.part);
  return planned != holder &&
         !(is_branch(task) && planned_worker(sample, 1 - task.part) == holder &&
           slowness(planned, holder) >= kClearlySlower);
}

/// Recalls the tasks of the sample that belong to another worker by now. A task
/// that was lost with a worker stays where it is, because that task may have
/// ended the worker.
void CoordinatorPolicy::recall_misplaced(const Sample& sample) {
  for (const auto& [number, holder] : sample.grants) {
    const SampleTask& work = at(holder).held.at(number).work;
    if (!work.alone && !at(holder).drains &&
        is_misplaced(sample, work.task, holder)) {
      recall(holder, number);
    }
  }
}

/// A worker has come up. Tasks that now belong to it are recalled from other
/// workers: with long passes, tasks are granted long ahead.
void CoordinatorPolicy::recall_for(int newcomer) {
  if (options_.method.kind->spreads) {
    recall_share(newcomer);
  }
  if (const std::optional<std::size_t> group = groups_.group_of(newcomer)) {
    for (const std::uint64_t index : groups_.samples(*group)) {
      recall_misplaced(samples_.at(index));
    }
  }
}

/// Recalls rows that any worker may compute: from each worker the rows above
/// the average, the newest first. A returned row goes to the worker that would
/// finish it first.
void CoordinatorPolicy::recall_share(int newcomer) {
  const int execution_class = at(newcomer).traits.execution_class;
  const auto takes_part = [&](const Worker& worker) {
    return worker.alive && !worker.drains &&
           worker.traits.execution_class == execution_class;
  };
  int tasks = 0;
  int alive = 0;
  for (const Worker& worker : workers_) {
    tasks += takes_part(worker) ? worker.heavy : 0;
    alive += takes_part(worker) ? 1 : 0;
  }
  const int fair = (tasks + alive - 1) / std::max(alive, 1);
  for (int w = 0; w < num_workers(); ++w) {
    const Worker& worker = at(w);
    if (!takes_part(worker) || worker.heavy <= fair) {
      continue;
    }
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, granted] : worker.held) {
      if (spreads(granted.work.task) && !granted.work.alone) {
        numbers.push_back(number);
      }
    }
    const auto surplus = static_cast<std::size_t>(worker.heavy - fair);
    const std::size_t kept = numbers.size() - std::min(numbers.size(), surplus);
    std::for_each(numbers.rbegin(),
                  numbers.rend() - static_cast<std::ptrdiff_t>(kept),
                  [&](std::uint64_t number) { recall(w, number); });
  }
}

/// Releases the draining processes whose workers hold no task and that hold no
/// value alone.
void CoordinatorPolicy::release_drained() {
  for (const int process : std::set(draining_)) {
    const bool has_work = std::ranges::any_of(workers_, [&](const Worker& w) {
      return w.traits.process == process && !w.held.empty();
    });
    if (!has_work && !rescue_values(process)) {
      release(process);
    }
  }
}

/// Fetches the needed values that no other process holds; false: there are
/// none.
bool CoordinatorPolicy::rescue_values(int process) {
  bool is_needed = false;
  for (auto& [index, sample] : samples_) {
    FetchValues fetch{index, sample.run, 0, {}, true};
    for (const Slot slot : needed_slots(sample)) {
      if (sample.values.is_only_at(slot, process)) {
        fetch.values.push_back({{index, sample.run, slot}, process});
      }
    }
    is_needed = is_needed || !fetch.values.empty();
    if (!fetch.values.empty() && sample.rescued.empty()) {
      for (const RemoteValue& value : fetch.values) {
        sample.values.expect(value.name.slot, kHomeProcess);
        sample.rescued.push_back(value.name.slot);
      }
      commands_.emplace_back(std::move(fetch));
    }
  }
  return is_needed;
}

void CoordinatorPolicy::values_rescued(Sample& sample,
                                       const ValuesFetched& event) {
  const std::uint64_t when = next_grant_++;
  for (const RemoteValue& value : event.gone) {
    sample.values.remove(value.name.slot, value.process);
    std::erase(sample.rescued, value.name.slot);
  }
  for (const Slot slot : std::exchange(sample.rescued, {})) {
    sample.values.add(slot, kHomeProcess, {}, when);
  }
  if (lacks_values(sample)) {
    ++recoveries_;
    restart_in_class(sample);
  }
}

void CoordinatorPolicy::release(int process) {
  draining_.erase(process);
  lost_processes_.insert(process);
  for (int w = 0; w < num_workers(); ++w) {
    if (at(w).traits.process == process) {
      at(w).gone = true;
      set_alive(w, false);
    }
  }
  for (auto& [number, sample] : samples_) {
    sample.values.lose(process);
  }
  frees_.erase(process);
  links_.remove(process);
  tally_.left(process, now_);
  commands_.emplace_back(ReleaseProcess{process});
  note_waiting();
}

}  // namespace troupe::actors
