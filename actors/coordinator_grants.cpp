// The part of CoordinatorPolicy that moves tasks: where they run, and what
// their results mean.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"
#include "actors/packer.h"

namespace troupe::actors {
namespace {

using samplers::Task;

/// Rows whose time is remembered: older ones count for half.
constexpr double kRememberedRows = 64;
/// A pass that takes longer than usual (the first reads weights) raises what is
/// usual by so much at most.
constexpr double kUsualRises = 1.05;
/// A worker so many times as fast as before is looked at anew.
constexpr double kOtherSpeed = 1.2;
constexpr Duration kWeighSoon = std::chrono::milliseconds(250);
constexpr std::size_t kMostTasksOfAGrant = 16;
// A grant has memory for so many from the start, so that it seldom grows.
constexpr std::size_t kUsualTasksOfAGrant = 4;

// Work ahead that hides what the coordinator takes to answer, and no more. A
// worker that is far away hears of new work a round trip after its results have
// left; a lost packet, sent again, makes that several.
constexpr Duration kHorizon = std::chrono::milliseconds(20);
constexpr int kRoundTripsAhead = 4;

// A sample's steps run at its home. While the home computes a row, a step that
// is ready waits, and with it all rows that follow.
constexpr double kReserveOfHome = 0.25;

double seconds(TimePoint time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

/// Whether it goes to whichever worker of the class would be done first.
bool CoordinatorPolicy::spreads(const Task& task) const {
  return options_.method.kind->spreads && task.op->spreads;
}

/// The worker that computes this part: the planned one of the sample's group,
/// or else the next one of the group that is alive and not left out, or else
/// the next living worker of the class. −1: the class has no living worker.
int CoordinatorPolicy::planned_worker(const Sample& sample, int part) const {
  const int own = worker_of_part(sample.group, part, nullptr);
  if (own >= 0) {
    return own;
  }
  const std::vector<int>& planned = groups_.group(sample.group).workers;
  return live_.next(class_of(sample),
                    planned[static_cast<std::size_t>(part) % planned.size()]);
}

int CoordinatorPolicy::worker_of(const Sample& sample, const Task& task) {
  const auto losses = sample.losses.find(task.id);
  if (losses != sample.losses.end()) {
    return worker_of_suspect(sample, losses->second);
  }
  if (spreads(task)) {
    const int home = planned_worker(sample, 0);
    const int least = home < 0
                          ? home
                          : live_.least_loaded(class_of(sample), seconds(now_),
                                               at(home).traits.process);
    // If that worker's memory is full, the sample's own workers compute the
    // row.
    if (least >= 0 && !full_memory_of(at(least).traits, sample.room)) {
      return least;
    }
  }
  if (is_branch(task)) {
    return worker_of_branch(sample, task);
  }
  return task.op->stays_beside ? worker_beside(sample, task)
                               : planned_worker(sample, task.part);
}

/// Who of the sample's group has the fewest tasks of this op to do, of those
/// that share the memory of the part's worker.
int CoordinatorPolicy::worker_beside(const Sample& sample, const Task& task) {
  int best = planned_worker(sample, task.part);
  if (best < 0) {
    return best;
  }
  const WorkerTraits first = at(best).traits;
  const auto load_of = [&](int worker) {
    const Worker& one = at(worker);
    const auto same = std::ranges::count_if(one.held, [&](const auto& held) {
      return held.second.work.task.op == task.op;
    });
    return std::pair(same, one.heavy);
  };
  for (const int other : groups_.group(sample.group).workers) {
    const Worker& one = at(other);
    if (one.alive && !one.drains && one.traits.process == first.process &&
        one.traits.device == first.device && load_of(other) < load_of(best)) {
      best = other;
    }
  }
  return best;
}

/// How many tasks of the sample can be open at once: those that its workers
/// come to within the horizon, and two calls at least. Not more: a worker that
/// is lost takes along the results that the coordinator has not heard of. Where
/// rows spread and take long, only tasks whose inputs exist: a row that is
/// placed before may wait behind another row while a worker is idle. That costs
/// a row, and the news of its inputs far less.
int CoordinatorPolicy::most_open(const Sample& sample) const {
  using Seconds = std::chrono::duration<double>;
  const ClassTimes& times = times_[static_cast<std::size_t>(class_of(sample))];
  const bool is_measured = times.num_results > 0 && times.busy > Duration{};
  const double pass = is_measured ? Seconds(times.busy).count() /
                                        static_cast<double>(times.num_results)
                                  : 0;
  const Seconds way =
      std::max(kHorizon, kRoundTripsAhead * round_trip_of(sample));
  if (options_.method.kind->spreads && (!is_measured || pass > way.count())) {
    return samplers::kNothingAhead;
  }
  double calls = 2;
  if (is_measured) {
    const double horizon = std::min(std::max(2 * pass, way.count()), 1.0);
    const auto share = static_cast<double>(
        std::max<std::size_t>(groups_.load(sample.group), 1));
    calls = std::max(calls, std::ceil(horizon / pass / share));
  }
  return static_cast<int>(
      std::min(calls * tasks_per_call_, static_cast<double>(most_ahead_)));
}

/// The longest to a process that works on it.
Duration CoordinatorPolicy::round_trip_of(const Sample& sample) const {
  Duration longest{};
  if (links_.empty()) {
    return longest;
  }
  if (options_.method.kind->spreads) {
    return links_.longest_round_trip();
  }
  for (const int w : groups_.group(sample.group).workers) {
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    const LinkPace link = links_.between(kHomeProcess, worker.traits.process);
    longest =
        std::max(longest, worker.is_left_out ? Duration{} : link.round_trip);
  }
  return longest;
}

/// Gives the task to its worker; the grant leaves at the end of the event.
void CoordinatorPolicy::route(Sample& sample, SampleTask work) {
  work.run = sample.run;
  const int index = worker_of(sample, work.task);
  const auto losses = sample.losses.find(work.task.id);
  const bool is_suspect = losses != sample.losses.end();
  work.alone = work.alone || is_suspect;
  if (is_suspect && index >= 0 && risks_job(losses->second, index)) {
    parked_.emplace(sample.index, work.task.id);
  }
  if (index < 0 || reads_unplaced(work)) {
    unplaced_.push_back(std::move(work));
    return;
  }
  Worker& worker = at(index);
  if (worker.held.empty()) {
    worker.last_life = now_;
  }
  if (work.task.op->is_heavy() && worker.heavy++ == 0) {
    worker.heavy_since = now_;
  }
  note_load(index);
  keep_room(sample, worker.traits);
  const bool was_granted = work.grant != 0;
  work.grant = next_grant_++;
  Grant& grant = grant_for(index);
  find_values(sample, work.task, grant);
  grant.tasks.push_back(work);
  if (was_granted) {
    redirect_readers(sample, work.task);
  }
  sample.grants[work.grant] = index;
  if (work.task.id == kDecodeTask) {
    ask_for_result(sample);
  }
  worker.held[work.grant].work = std::move(work);
}

/// Whether a task that makes an input of `work` is itself without a worker.
bool CoordinatorPolicy::reads_unplaced(const SampleTask& work) const {
  return std::ranges::any_of(unplaced_, [&work](const SampleTask& maker) {
    return maker.sample_index == work.sample_index && maker.run == work.run &&
           std::ranges::find_first_of(maker.task.outputs, work.task.inputs) !=
               maker.task.outputs.end();
  });
}

/// A task that was lost with its worker, or that was in a pass that failed,
/// runs in a pass of its own.
void CoordinatorPolicy::route_alone(std::vector<SampleTask> tasks) {
  for (SampleTask& work : tasks) {
    if (Sample* sample = sample_of(work)) {
      work.alone = true;
      route(*sample, std::move(work));
    }
  }
}

/// The grant that is being made for a worker, with room for one more task.
Grant& CoordinatorPolicy::grant_for(int index) {
  Worker& worker = at(index);
  if (!worker.outgoing || outbox_[*worker.outgoing].epoch != worker.epoch ||
      outbox_[*worker.outgoing].tasks.size() >= kMostTasksOfAGrant) {
    worker.outgoing = outbox_.size();
    Grant& grant = outbox_.emplace_back();
    grant.worker = index;
    grant.epoch = worker.epoch;
    grant.max_rows = worker.traits.max_rows;
    grant.tasks.reserve(kUsualTasksOfAGrant);
  }
  return outbox_[*worker.outgoing];
}

/// The grants since the last call, without tasks that were taken back
/// meanwhile.
void CoordinatorPolicy::send_grants() {
  for (Grant& grant : outbox_) {
    Worker& worker = at(grant.worker);
    worker.outgoing.reset();
    std::erase_if(grant.tasks, [&worker](const SampleTask& work) {
      return !worker.held.contains(work.grant);
    });
    if (grant.tasks.empty()) {
      continue;
    }
    // Frees ride with a task whose answer shows that they have come.
    if (auto frees = frees_.take(worker.traits.process)) {
      grant.frees = std::move(*frees);
      worker.held.at(grant.tasks.front().grant).frees = grant.frees;
    }
    commands_.emplace_back(std::move(grant));
  }
  outbox_.clear();
  // Behind the grants that they change.
  for (Redirect& redirect : std::exchange(redirects_, {})) {
    if (at(redirect.worker).held.contains(redirect.grant)) {
      commands_.emplace_back(std::move(redirect));
    }
  }
  for (Recall& recall : std::exchange(recalls_, {})) {
    std::erase_if(recall.grants, [&](std::uint64_t number) {
      return !at(recall.worker).held.contains(number);
    });
    if (!recall.grants.empty()) {
      commands_.emplace_back(std::move(recall));
    }
  }
}

/// Forgets a grant, and returns its task. Whether the worker has freed what the
/// grant took along is known if it has answered; twice is harmless.
SampleTask CoordinatorPolicy::take_grant(int index, std::uint64_t number,
                                         bool is_answered) {
  Worker& worker = at(index);
  Outstanding granted = *worker.held.take(number);
  worker.heavy -= granted.work.task.op->is_heavy() ? 1 : 0;
  note_load(index);
  if (!is_answered && !granted.frees.empty()) {
    std::ranges::move(granted.frees,
                      std::back_inserter(frees_[worker.traits.process]));
  }
  if (Sample* sample = sample_of(granted.work)) {
    sample->grants.erase(number);
  }
  return std::move(granted.work);
}

/// Shares what a worker has spent on a pass among the samples in it.
void CoordinatorPolicy::settle_ticks(Worker& worker, std::uint64_t ticks,
                                     const std::vector<Answered>& pass) {
  if (ticks <= worker.settled_ticks) {
    return;
  }
  const auto spent = static_cast<double>(ticks - worker.settled_ticks);
  worker.settled_ticks = ticks;
  for (const Answered& answered : pass) {
    const SampleTask& work = answered.work;
    Sample* sample = sample_of(work);
    if (sample != nullptr && work.task.id != kDecodeTask) {
      sample->ticks += spent / static_cast<double>(pass.size());
    }
  }
}

/// The worker's speed or what it has to do has changed. Only methods that
/// spread ask for it.
void CoordinatorPolicy::note_load(int index) {
  if (options_.method.kind->spreads) {
    const Worker& worker = at(index);
    const auto link = row_links_.find(worker.traits.process);
    live_.set_load(index,
                   {.link_seconds = link == row_links_.end() ? 0 : link->second,
                    .is_left_out = worker.is_left_out,
                    .reserve = worker.is_home ? kReserveOfHome : 0,
                    .row_seconds = worker.row_seconds,
                    .num_rows = worker.num_rows,
                    .tasks = worker.heavy,
                    .at_once = std::min(worker.heavy, worker.traits.max_rows),
                    .since = seconds(worker.heavy_since)});
  }
}

/// The group has got a sample, or given one away.
void CoordinatorPolicy::note_loads(std::size_t group) {
  for (const int worker : groups_.group(group).workers) {
    at(worker).is_home = groups_.load(group) > 0;
    note_load(worker);
  }
}

/// How long rows take on the worker, as far as it is remembered.
void CoordinatorPolicy::note_speed(Worker& worker, const GrantResult& event) {
  if (event.grants.empty() || !event.span.op->joins()) {
    return;
  }
  // A part of the network counts as the whole would: so workers that compute
  // different parts can be compared.
  const double taken =
      std::chrono::duration<double>(event.span.duration).count() /
      share_of(event.span.op, event.span.segment);
  const auto rows = static_cast<double>(event.grants.size());
  worker.row_seconds += taken;
  worker.num_rows += rows;
  worker.measured_rows += static_cast<std::int64_t>(event.grants.size());
  if (worker.num_rows > kRememberedRows) {
    worker.row_seconds /= 2;
    worker.num_rows /= 2;
  }
  double& usual = worker.usual_row_seconds;
  const double before = usual;
  usual =
      before == 0 ? taken / rows : std::min(taken / rows, kUsualRises * before);
  times_of(worker.traits.execution_class).usual_row_seconds = usual;
  if (before == 0) {
    weigh_at_ = TimePoint::min();
  } else if (usual * kOtherSpeed < before) {
    weigh_at_ = std::min(weigh_at_, now_ + kWeighSoon);
  }
}

/// A segment of a pipeline is no row that another job could expect.
std::vector<WorkerSpeed> CoordinatorPolicy::measured_speeds() const {
  std::vector<WorkerSpeed> speeds;
  for (const Worker& worker : workers_) {
    if (worker.measured_rows > 0 &&
        samplers::num_segments(options_.method) == 1) {
      speeds.push_back({worker.traits, worker.row_seconds / worker.num_rows,
                        worker.measured_rows});
    }
  }
  return speeds;
}

void CoordinatorPolicy::apply_results(
    int worker, const std::vector<samplers::TaskResult>& results,
    const std::vector<Answered>& pass) {
  const int process = at(worker).traits.process;
  for (const Answered& answered : pass) {
    const SampleTask& work = answered.work;
    Sample* sample = ended_ ? nullptr : sample_of(work);
    if (sample == nullptr) {
      continue;
    }
    try {
      if (apply_result(*sample, work.task, results[answered.place])) {
        tally_.finished_task(process, work.task.op->joins());
      }
    } catch (const Error& error) {
      if (!is_of_sample(error.code())) {
        throw;
      }
      end_sample(work.sample_index, SampleStatus::failed, current_failure());
    }
  }
}

bool CoordinatorPolicy::apply_result(Sample& sample, const Task& task,
                                     const samplers::TaskResult& result) {
  if (task.id == kDecodeTask) {
    sample.is_decoded = true;
    bring_home(sample);
    return true;
  }
  const int accepted = sample.method->accepted();
  const bool was_done = sample.method->done();
  const std::optional<samplers::Slots> dead = sample.method->apply(result);
  if (!dead) {
    return false;
  }
  if (sample.method->accepted() > accepted) {
    sample.ticks = 0;
  }
  show_step(sample, task);
  free_slots(sample, *dead);
  if (!sample.method->done()) {
    cut_if_due(sample);
    issue_ready(sample);
  } else if (!was_done) {
    finish_method(sample);
  }
  return true;
}

}  // namespace troupe::actors
