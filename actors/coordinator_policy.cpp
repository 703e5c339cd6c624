#include "actors/coordinator_policy.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace troupe::actors {
namespace {

using samplers::InFlight;
using samplers::Task;

// With this many failures and no success the fault is the job's, not the
// samples'.
constexpr std::uint64_t kHopeless = 16;

/// A worker that beat within this time is not silent: four of its beats.
constexpr Duration kStillBeats = std::chrono::seconds(1);

/// A peer can say any number.
bool is_of_worker_below(int num_workers, const CoordinatorEvent& event) {
  return std::visit(
      [num_workers](const auto& e) {
        if constexpr (requires { e.worker; }) {
          return e.worker >= 0 && e.worker < num_workers;
        } else {
          return true;
        }
      },
      event);
}

}  // namespace

CoordinatorPolicy::CoordinatorPolicy(CoordinatorOptions options)
    : options_(std::move(options)),
      groups_(samplers::num_parts(options_.method)) {
  require(!options_.workers.empty() || options_.waits_for_processes,
          Errc::invalid_argument, "workers", "at least one is needed");
  note_class(std::max(options_.num_classes, 1) - 1);
  const int parts = samplers::num_parts(options_.method);
  calls_per_sample_ = options_.make_method()->progress().total;
  tasks_per_call_ = tasks_per_call(options_.method);
  if (options_.means != ProcessMeans{}) {
    tally_.set_means(kHomeProcess, options_.means);
  }
  std::vector<int> classes;
  for (const WorkerTraits& traits : options_.workers) {
    classes.push_back(traits.execution_class);
    add_worker(traits);
  }
  for (WorkerGroup& group : group_workers(classes, parts)) {
    const InFlight capacity = capacity_of(at(group.workers.front()).traits);
    groups_.add_group(std::move(group), capacity);
    groups_.set_row_seconds(groups_.size() - 1, row_time(groups_.size() - 1));
  }
  waits_ = workers_.empty();
  plan_room();
}

/// Of a group whose first worker is like this.
samplers::InFlight CoordinatorPolicy::capacity_of(
    const WorkerTraits& traits) const {
  return options_.method.kind->in_flight(samplers::num_parts(options_.method),
                                         traits.max_rows);
}

std::vector<CoordinatorCommand> CoordinatorPolicy::on(
    const CoordinatorEvent& event, TimePoint now) {
  std::vector<CoordinatorCommand> commands;
  std::vector<CoordinatorCommand> grants;
  take(event, now, commands);
  give_grants(grants);
  std::ranges::move(grants, std::back_inserter(commands));
  return commands;
}

void CoordinatorPolicy::take(const CoordinatorEvent& event, TimePoint now,
                             std::vector<CoordinatorCommand>& commands) {
  commands_.clear();
  now_ = now;
  if (!ended_ && is_of_worker_below(num_workers(), event)) {
    std::visit([this](const auto& e) { handle(e); }, event);
  }
  park_suspects();
  if (!ended_) {
    release_drained();
  }
  has_begun_ = has_begun_ || num_unknown_ == 0;
  if (!ended_ && has_begun_) {
    weigh_links();
    admit_samples();
    share_samples();
    take_over_samples();
    park_suspects();
    if (samples_.empty() && next_sample_ == options_.samples.size()) {
      end_job(false, {});
    }
  }
  commands.swap(commands_);
}

void CoordinatorPolicy::give_grants(std::vector<CoordinatorCommand>& commands) {
  commands_.clear();
  if (!ended_) {
    send_grants();
  }
  commands.swap(commands_);
}

// ---- events

void CoordinatorPolicy::handle(const WorkerUp& event) {
  Worker& worker = at(event.worker);
  if (worker.alive) {
    count_losses(event.worker, "was started again");
    lose_workers({event.worker});
  }
  if (worker.gone || worker.drains || ended_) {
    return;
  }
  note_known(event.worker);
  groups_.came_up(event.worker);
  set_alive(event.worker, true);
  tally_.came_up(worker.traits.process, now_);
  worker.epoch = event.epoch;
  worker.ticks = 0;
  worker.settled_ticks = 0;
  worker.last_life = now_;
  worker.last_beat = now_;
  if (is_deserted_ && groups_.best(-1)) {
    is_deserted_ = false;
    find_groups();
  }
  weigh_at_ = TimePoint::min();
  reroute(std::exchange(unplaced_, {}));
  recall_for(event.worker);
}

void CoordinatorPolicy::note_known(int index) {
  Worker& worker = at(index);
  if (!worker.known) {
    worker.known = true;
    --num_unknown_;
    groups_.heard_of(index);
  }
}

void CoordinatorPolicy::set_alive(int worker, bool is_alive) {
  at(worker).alive = is_alive;
  live_.set_alive(worker, is_alive);
}

void CoordinatorPolicy::handle(const WorkerDown& event) {
  Worker& worker = at(event.worker);
  note_known(event.worker);
  if (worker.alive && worker.epoch == event.epoch) {
    count_losses(event.worker, "ended");
    lose_workers({event.worker});
  }
  if (event.gone && !ended_) {
    retire(event.worker, *event.gone, {});
  }
}

void CoordinatorPolicy::handle(const WorkerBeat& event) {
  Worker& worker = at(event.worker);
  if (worker.epoch != event.epoch) {
    return;
  }
  worker.last_beat = now_;
  if (event.waits || worker.ticks != event.ticks) {
    worker.ticks = event.ticks;
    worker.last_life = now_;
    report_progress();
  }
}

void CoordinatorPolicy::handle(const TimeTick&) {
  has_begun_ = has_begun_ || groups_.has_open();
  for (auto&& [process, frees] : std::exchange(frees_, {})) {
    commands_.push_back(FreeValues{process, std::move(frees)});
  }
  renew_leases_after_a_gap();
  std::vector<int> silent;
  for (int w = 0; w < num_workers(); ++w) {
    const Worker& worker = at(w);
    if (options_.lease.least > Duration{} && worker.alive &&
        !worker.held.empty() &&
        now_ - worker.last_life > options_.lease.least &&
        now_ - worker.last_life > lease_of(w)) {
      silent.push_back(w);
      if (now_ - worker.last_beat <= kStillBeats) {
        count_losses(w, "did not go on, while its process did");
      }
      commands_.push_back(FenceWorker{w, "showed no life for its lease"});
    }
  }
  lose_workers(silent);
  reroute(std::exchange(unplaced_, {}));
}

void CoordinatorPolicy::handle(const StopRequested&) { end_job(true, {}); }

void CoordinatorPolicy::handle(const JobFault& event) {
  end_job(false, event.cause);
}

void CoordinatorPolicy::handle(const OutcomeReleased& event) {
  unwritten_.erase(event.sample_index);
}

void CoordinatorPolicy::handle(const GrantResult& event) {
  note_values(event);
  Worker& worker = at(event.worker);
  if (!worker.alive || worker.epoch != event.epoch) {
    return;  // late: its tasks have gone to another worker
  }
  if (auto pass = take_answered(event)) {
    std::visit(
        [&](const auto& outcome) { handle(event, outcome, *std::move(pass)); },
        event.outcome);
  }
}

void CoordinatorPolicy::handle(const GrantResult& event, const TasksDone& done,
                               std::vector<Answered> pass) {
  Worker& worker = at(event.worker);
  note_speed(worker, event);
  Duration& slowest =
      times_of(worker.traits.execution_class).slowest[event.span.op];
  slowest = std::max(slowest, event.span.duration);
  note_pass(event, pass);
  ShowPass show;
  for (const auto& [work, place] : pass) {
    if (const auto& scalars = done.results[place].scalars; !scalars.empty()) {
      show.scalars.push_back(
          {work.task.op, work.sample_index, work.task.from, scalars});
    }
  }
  // Before what follows from it: nothing of a sample is seen after its end.
  commands_.emplace_back(std::move(show));
  apply_results(event.worker, done.results, pass);
  report_progress();
}

void CoordinatorPolicy::handle(const GrantResult& event,
                               const TasksFailed& failed,
                               std::vector<Answered> pass) {
  note_pass(event, pass);
  commands_.emplace_back(ShowPass{});
  pass_failed(event, failed, tasks_of(std::move(pass)));
  report_progress();
}

void CoordinatorPolicy::handle(const GrantResult& /*event*/,
                               const TasksReturned& /*returned*/,
                               std::vector<Answered> pass) {
  reroute(tasks_of(std::move(pass)));
}

/// The executor has ended a pass.
void CoordinatorPolicy::note_pass(const GrantResult& event,
                                  const std::vector<Answered>& pass) {
  Worker& worker = at(event.worker);
  worker.last_life = now_;
  worker.heavy_since = now_;
  note_load(event.worker);
  note_times(worker.traits.execution_class, event.span.duration);
  tally_.worked(worker.traits.process, event.span.duration);
  settle_ticks(worker, event.ticks, pass);
}

/// Takes the grants that the result answers. Nothing if the results do not
/// match the granted tasks, or if a result lacks an output of its task: then
/// the worker is fenced, and its tasks are granted again.
std::optional<std::vector<CoordinatorPolicy::Answered>>
CoordinatorPolicy::take_answered(const GrantResult& event) {
  const auto* const done = std::get_if<TasksDone>(&event.outcome);
  bool fits = done == nullptr || done->results.size() == event.grants.size();
  std::vector<Answered> pass;
  for (std::size_t i = 0; fits && i < event.grants.size(); ++i) {
    const Outstanding* const found =
        at(event.worker).held.find(event.grants[i]);
    if (found == nullptr) {
      continue;
    }
    const Task& task = found->work.task;
    fits = done == nullptr || (done->results[i].id == task.id &&
                               done->results[i].version == task.version &&
                               is_whole(event, found->work, done->results[i]));
    if (fits) {
      pass.push_back({take_grant(event.worker, event.grants[i], true), i});
    }
  }
  if (fits) {
    return pass;
  }
  commands_.push_back(
      FenceWorker{event.worker, "sent a result that does not match its tasks"});
  lose_workers({event.worker});
  reroute(tasks_of(std::move(pass)));
  report_progress();
  return std::nullopt;
}

std::vector<SampleTask> CoordinatorPolicy::tasks_of(
    std::vector<Answered> pass) {
  std::vector<SampleTask> tasks;
  for (Answered& answered : pass) {
    tasks.push_back(std::move(answered.work));
  }
  return tasks;
}

// ---- samples

CoordinatorPolicy::Sample* CoordinatorPolicy::sample_of(
    const SampleTask& work) {
  const auto found = samples_.find(work.sample_index);
  const bool waits = found != samples_.end() && found->second.run == work.run;
  return waits ? &found->second : nullptr;
}

void CoordinatorPolicy::issue_ready(Sample& sample) {
  for (Task& task : sample.method->ready(most_open(sample))) {
    route(sample, {sample.index, std::move(task)});
  }
}

void CoordinatorPolicy::finish_method(Sample& sample) {
  if (!options_.decode) {
    bring_home(sample);
    return;
  }
  route(sample, {sample.index,
                 samplers::decode_task(
                     kDecodeTask, sample.method->result_slot(), kPixelsSlot)});
}

void CoordinatorPolicy::end_sample(std::uint64_t index, SampleStatus status,
                                   std::optional<Failure> failure) {
  const auto found = samples_.find(index);
  Sample& sample = found->second;
  const samplers::Progress progress = sample.method->progress();
  ended_totals_.calls_done += progress.accepted;
  ended_totals_.nfe += progress.nfe;
  ended_totals_.reused += progress.reused;
  ended_totals_.rounds = std::max(ended_totals_.rounds, progress.rounds);
  if (status == SampleStatus::failed) {
    ++ended_totals_.samples_failed;
    if (!first_failure_) {
      first_failure_ = failure;
    }
  } else if (status == SampleStatus::cancelled) {
    ++ended_totals_.samples_cancelled;
  } else {
    ++ended_totals_.samples_done;
    ClassTimes& times = times_of(class_of(sample));
    times.of_samples += now_ - sample.began;
    ++times.num_samples;
    if (options_.outcome_bytes > 0) {
      unwritten_.insert(index);
    }
  }
  commands_.push_back(
      EndSample{{index, status, progress, std::move(failure), class_of(sample)},
                sample.method->result_slot(),
                sample.run});
  drop_runs(sample, std::nullopt);
  give_room_back(sample);
  groups_.remove(sample.group, index);
  note_loads(sample.group);
  samples_.erase(found);
  end_if_hopeless();
}

void CoordinatorPolicy::end_if_hopeless() {
  if (!options_.keep_going && first_failure_ &&
      ended_totals_.samples_done == 0 &&
      ended_totals_.samples_failed >=
          std::min<std::uint64_t>(kHopeless, options_.samples.size())) {
    Failure cause = *first_failure_;
    if (ended_totals_.samples_failed < options_.samples.size()) {
      cause.message += " (every image so far has failed)";
      cause.hint += (cause.hint.empty() ? "" : "; ") +
                    std::string("--keep-going goes on with the others");
    }
    end_job(false, std::move(cause));
  }
}

void CoordinatorPolicy::end_job(bool stopped, std::optional<Failure> failure) {
  if (ended_) {
    return;
  }
  ended_ = true;
  EndJob end{.stopped = stopped,
             .failure = std::move(failure),
             .progress = progress(),
             .recoveries = recoveries_,
             .lost = lost_,
             .speeds = measured_speeds()};
  for (const ClassTimes& times : times_) {
    end.busy += times.busy;
  }
  for (const auto& [index, sample] : samples_) {
    end.unfinished.push_back(
        {index, SampleStatus::unfinished, sample.method->progress()});
  }
  for (; next_sample_ < options_.samples.size(); ++next_sample_) {
    end.unfinished.push_back(
        {options_.samples[next_sample_], SampleStatus::unfinished});
  }
  commands_.push_back(std::move(end));
}

}  // namespace troupe::actors
