#include "tests/simulator/ledger.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace troupe::actors::simulator {
namespace {

/// As CoordinatorOptions has them.
const CoordinatorOptions& limits() {
  static const CoordinatorOptions options;
  return options;
}

std::string named(const SampleTask& work) {
  return "task " + std::to_string(work.task.id) + " of sample " +
         std::to_string(work.sample_index) + ", run " +
         std::to_string(work.run);
}

bool is_forward(const Grant& grant) {
  return std::ranges::any_of(grant.tasks, [](const SampleTask& work) {
    return work.task.op->joins();
  });
}

bool joins(const samplers::Task& a, const samplers::Task& b) {
  return a.op == b.op && a.segment == b.segment;
}

/// The undisturbed end of a sample is the same in every scenario.
const PlainEnd& plain_end_of(const Variant& variant,
                             std::uint64_t sample_index) {
  static std::map<std::pair<std::size_t, std::uint64_t>, PlainEnd> ends;
  const auto key = std::pair(variant.number, sample_index);
  const auto found = ends.find(key);
  return found != ends.end()
             ? found->second
             : ends.emplace(key, plain_end(variant.method, *variant.schedule,
                                           sample_index))
                   .first->second;
}

}  // namespace

Ledger::Ledger(const Scenario& scenario)
    : scenario_(scenario),
      workers_(static_cast<std::size_t>(scenario.num_at_start)) {}

void Ledger::expect(bool good, std::string_view what) {
  if (!good && !first_error_) {
    first_error_ = what;
  }
}

/// The task is named only where something is wrong: most of the checks are
/// right.
void Ledger::expect(bool good, std::string_view what, const SampleTask& work) {
  if (!good) {
    expect(false, std::string(what) + ": " + named(work));
  }
}

Ledger::TaskName Ledger::name_of(const SampleTask& work) {
  return {work.sample_index, work.run, work.task.id, work.task.version};
}

void Ledger::heard(const WorkerUp& up, TimePoint now) {
  const auto w = static_cast<std::size_t>(up.worker);
  Incarnation& worker = workers_.at(w);
  lose(worker, Loss{scenario_.workers[w].process});
  worker.epoch = up.epoch;
  worker.last_beat = now;
  worker.is_alive = !worker.is_gone;
}

void Ledger::heard(const WorkerDown& down) {
  has_losses_ = true;
  const auto w = static_cast<std::size_t>(down.worker);
  Incarnation& worker = workers_.at(w);
  if (worker.epoch == down.epoch) {
    lose(worker, Loss{scenario_.workers[w].process});
  }
  worker.is_gone = worker.is_gone || down.gone.has_value();
}

void Ledger::heard(const WorkerBeat& beat, TimePoint now) {
  Incarnation& worker = workers_.at(static_cast<std::size_t>(beat.worker));
  if (worker.epoch == beat.epoch) {
    worker.last_beat = now;
  }
}

void Ledger::heard(const GrantResult& result) {
  if (std::holds_alternative<TasksDone>(result.outcome)) {
    const auto worker = static_cast<std::size_t>(result.worker);
    Duration& slowest = slowest_[scenario_.workers.at(worker).execution_class];
    slowest = std::max(slowest, result.span.duration);
  }
  for (const std::uint64_t grant : result.grants) {
    if (grants_.contains(grant) &&
        workers_.at(static_cast<std::size_t>(result.worker)).epoch ==
            result.epoch) {
      forget(grant);
    }
  }
}

void Ledger::heard(const ProcessDown& down, TimePoint now) {
  has_losses_ = true;
  const auto loss =
      down.has_ended ? std::optional(Loss{down.process, now}) : std::nullopt;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (scenario_.workers[w].process == down.process) {
      lose(workers_[w], loss);
      workers_[w].is_gone = true;
    }
  }
}

void Ledger::heard(const DrainProcess& drain) {
  has_losses_ = true;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    workers_[w].drains =
        workers_[w].drains || scenario_.workers[w].process == drain.process;
  }
}

void Ledger::heard(const ProcessJoined& joined) {
  joiner_ = joined.process;
  machines_[joined.process] = joined.means.machine;
}

void Ledger::asked(const AdmitProcess& admit) {
  expect(joiner_ == admit.process, "a process is let in that did not ask");
  joiner_.reset();
  expect(admit.first_worker == static_cast<int>(workers_.size()),
         "a worker's number is given twice");
  for (int w = 0; w < admit.num_workers; ++w) {
    expect(workers_.size() < scenario_.workers.size() &&
               scenario_.workers[workers_.size()].process == admit.process,
           "a process is let in with workers that it has not got");
    workers_.emplace_back();
  }
}

void Ledger::check_answers() {
  expect(has_ended_ || !joiner_, "a process that asks to join gets no answer");
}

void Ledger::heard(const CancelSample& cancel) {
  unwanted_.insert(cancel.sample_index);
}

void Ledger::asked(const FetchValues& fetch) {
  expect(!ended_.contains(fetch.sample_index),
         "values of a sample that has ended are fetched");
  if (!fetch.is_rescue) {
    samples_[fetch.sample_index].is_asked_for = true;
  }
}

bool Ledger::is_coming_home(std::uint64_t sample_index) const {
  const auto found = samples_.find(sample_index);
  const bool is_computed =
      std::ranges::none_of(grants_, [sample_index](const auto& entry) {
        return entry.second.task.sample_index == sample_index;
      });
  return is_computed && found != samples_.end() && found->second.is_asked_for;
}

void Ledger::asked(const ReleaseProcess& release) {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (scenario_.workers[w].process == release.process) {
      expect(workers_[w].drains, "a process is let go that wants to stay");
      expect(workers_[w].grants.empty(),
             "a process is let go that has something to do");
      lose(workers_[w], {});
      workers_[w].is_gone = true;
    }
  }
}

void Ledger::heard_of_rebuild() {
  has_losses_ = false;
  begun_.clear();
  uses_.clear();
  std::ranges::fill(workers_, Incarnation{});
  grants_.clear();
  numbers_.clear();
  tasks_.clear();
  losses_.clear();
  slowest_.clear();
  for (auto& [index, sample] : samples_) {
    sample.is_asked_for = false;
  }
  reported_ = 0;
}

void Ledger::lose(Incarnation& incarnation, const std::optional<Loss>& loss) {
  incarnation.is_alive = false;
  for (const std::uint64_t id : std::set(incarnation.grants)) {
    const SampleTask& work = grants_.at(id).task;
    if (loss && work.alone && !incarnation.drains) {
      count(losses_[{work.sample_index, work.task.id}], *loss);
    }
    forget(id);
  }
}

void Ledger::count(Losses& losses, const Loss& loss) const {
  const auto machine_of = [this](int process) {
    const auto found = machines_.find(process);
    return found == machines_.end() ? 0 : found->second;
  };
  const std::uint64_t machine = machine_of(loss.process);
  const bool is_known = losses.last.process_ended && loss.process_ended &&
                        machine != 0 &&
                        machine == machine_of(losses.last.process) &&
                        *loss.process_ended - *losses.last.process_ended <=
                            std::chrono::seconds(2);
  if (!is_known) {
    ++losses.count;
    losses.ended_process = losses.ended_process || loss.process_ended;
    losses.last = loss;
  }
}

/// Whether a task of the sample has ended enough workers, or a process where
/// only the coordinator's is left, whose end would be that of the job.
bool Ledger::may_be_parked(std::uint64_t sample_index) const {
  const bool is_last_chance = only_home_is_left();
  return std::ranges::any_of(losses_, [&](const auto& entry) {
    const Losses& losses = entry.second;
    return entry.first.first == sample_index &&
           (losses.count >= limits().max_losses ||
            (losses.ended_process && is_last_chance));
  });
}

/// In some class, of a job that waits for nobody.
bool Ledger::only_home_is_left() const {
  std::map<int, bool> only_home;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (workers_[w].is_alive && !workers_[w].drains) {
      const WorkerTraits& traits = scenario_.workers[w];
      bool& is_only =
          only_home.emplace(traits.execution_class, true).first->second;
      is_only = is_only && traits.process == kHomeProcess;
    }
  }
  return (!scenario_.links || scenario_.num_at_start > 0) &&
         std::ranges::any_of(only_home,
                             [](const auto& entry) { return entry.second; });
}

void Ledger::forget(std::uint64_t grant) {
  const auto found = grants_.find(grant);
  tasks_.erase(name_of(found->second.task));
  workers_.at(static_cast<std::size_t>(found->second.worker))
      .grants.erase(grant);
  grants_.erase(found);
}

void Ledger::asked(const Grant& grant, TimePoint now) {
  Incarnation& worker = workers_.at(static_cast<std::size_t>(grant.worker));
  expect(!has_ended_, "a grant after the end of the job");
  expect(worker.is_alive && worker.epoch == grant.epoch,
         "a grant for an incarnation that is not there");
  expect(!grant.tasks.empty(), "a grant without tasks");
  for (const SampleTask& work : grant.tasks) {
    expect(numbers_.insert(work.grant).second,
           "a grant's number was used before");
    note_use(
        work.sample_index,
        scenario_.workers.at(static_cast<std::size_t>(grant.worker)).process);
    check_task(work,
               scenario_.workers.at(static_cast<std::size_t>(grant.worker))
                   .execution_class);
    begun_.insert(work.sample_index);
    worker.grants.insert(work.grant);
    grants_.emplace(work.grant, Held{grant.worker, now, work});
  }
}

void Ledger::asked(const Redirect& redirect) {
  const auto held = grants_.find(redirect.grant);
  expect(held != grants_.end() && held->second.worker == redirect.worker &&
             epoch_of(redirect.worker) == redirect.epoch,
         "a redirect of a grant that its worker does not hold");
  for (const RemoteValue& value : redirect.sources) {
    expect(is_read(value.name, redirect.worker),
           "a redirect of what its worker does not read");
  }
}

bool Ledger::is_being_made(const ValueName& name) const {
  return std::ranges::any_of(grants_, [&name](const auto& entry) {
    const SampleTask& work = entry.second.task;
    return work.sample_index == name.sample_index && work.run == name.run &&
           std::ranges::find(work.task.outputs, name.slot) !=
               work.task.outputs.end();
  });
}

bool Ledger::is_read(const ValueName& name, int worker) const {
  return std::ranges::any_of(grants_, [&](const auto& entry) {
    const SampleTask& work = entry.second.task;
    return entry.second.worker == worker &&
           work.sample_index == name.sample_index && work.run == name.run &&
           std::ranges::find(work.task.inputs, name.slot) !=
               work.task.inputs.end();
  });
}

void Ledger::begun(const Grant& pass) {
  expect(!is_forward(pass) ||
             static_cast<int>(pass.tasks.size()) <= scenario_.max_rows,
         "a pass of more rows than it takes");
  for (const SampleTask& work : pass.tasks) {
    expect(!is_forward(pass) || joins(work.task, pass.tasks[0].task),
           "a pass of tasks that do not join", work);
  }
}

void Ledger::note_use(std::uint64_t sample_index, int process) {
  const bool came_after_a_loss = has_losses_ && begun_.contains(sample_index);
  uses_[sample_index].emplace(process, came_after_a_loss);
}

std::uint64_t Ledger::most_bytes(int process) const {
  const std::uint64_t budget =
      scenario_.value_budgets.at(static_cast<std::size_t>(process));
  if (budget == 0) {
    return 0;
  }
  const auto came_after_a_loss = [process](const auto& entry) {
    const auto use = entry.second.find(process);
    return use != entry.second.end() && use->second;
  };
  return budget + static_cast<std::uint64_t>(
                      std::ranges::count_if(uses_, came_after_a_loss)) *
                      sample_bytes(scenario_, process, kMostAhead);
}

/// Grants of the dropped runs need no result any more.
void Ledger::asked(const DropRuns& drop) {
  uses_.erase(drop.sample_index);
  forget_grants(drop.sample_index, drop.last_run);
}

void Ledger::asked(const RestoreCut& restore, int execution_class) {
  expect(!ended_.contains(restore.sample_index),
         "a sample that has ended goes back to a cut");
  samples_[restore.sample_index] = {restore.run, execution_class};
}

void Ledger::forget_grants(std::uint64_t sample_index,
                           std::optional<std::uint32_t> last_run) {
  std::vector<std::uint64_t> dropped;
  for (const auto& [id, held] : grants_) {
    if (held.task.sample_index == sample_index &&
        (!last_run || held.task.run <= *last_run)) {
      dropped.push_back(id);
    }
  }
  for (const std::uint64_t id : dropped) {
    forget(id);
  }
}

Duration Ledger::longest_lease(int worker) const {
  const auto found = slowest_.find(
      scenario_.workers.at(static_cast<std::size_t>(worker)).execution_class);
  const std::chrono::duration<double> slowest =
      found == slowest_.end() ? Duration{} : found->second;
  return std::max(scenario_.lease.least, std::chrono::duration_cast<Duration>(
                                             slowest * scenario_.lease.factor));
}

void Ledger::check_task(const SampleTask& work, int execution_class) {
  expect(!ended_.contains(work.sample_index),
         "a grant for a sample that has ended", work);
  InFlight& sample = samples_[work.sample_index];
  expect(work.run >= sample.run, "a grant of an earlier run", work);
  if (work.run > sample.run || sample.execution_class < 0) {
    sample = {work.run, execution_class};
  }
  expect(sample.execution_class == execution_class,
         "one run in two execution classes", work);
  expect(tasks_.insert(name_of(work)).second, "a task is at two workers", work);
}

std::optional<std::uint32_t> Ledger::run_of(std::uint64_t sample_index) const {
  const auto sample = samples_.find(sample_index);
  return sample == samples_.end() ? std::nullopt
                                  : std::optional(sample->second.run);
}

void Ledger::asked(const ShowIntermediate& show, Symbol state) {
  if (!show.is_preview) {
    points_[show.sample_index][show.call] = state;
  }
}

void Ledger::asked(const FenceWorker& fence, TimePoint now) {
  has_losses_ = true;
  const auto w = static_cast<std::size_t>(fence.worker);
  Incarnation& worker = workers_.at(w);
  expect(worker.is_alive, "a fence for a worker that is not there");
  const bool still_beats = now - worker.last_beat <= std::chrono::seconds(1);
  lose(worker, still_beats ? std::optional(Loss{scenario_.workers[w].process})
                           : std::nullopt);
}

// ---- how samples and jobs end

void Ledger::asked(const EndSample& end,
                   const std::shared_ptr<SymbolTable>& home) {
  const std::uint64_t index = end.report.sample_index;
  const std::string name = "sample " + std::to_string(index);
  expect(!has_ended_, name + " ends after the job");
  expect(ended_.insert(index).second, name + " ends twice");
  if (end.report.status == SampleStatus::failed) {
    expect(may_be_parked(index), name + " failed");
    ++num_failed_;
    forget_grants(index);
    samples_.erase(index);
    return;
  }
  if (end.report.status == SampleStatus::cancelled) {
    expect(unwanted_.contains(index),
           name + " is cancelled, and nobody asked for it");
    ++num_cancelled_;
    forget_grants(index);
    samples_.erase(index);
    return;
  }
  expect(end.report.execution_class == samples_[index].execution_class,
         name + " is reported in another execution class than it ran in");
  samples_.erase(index);
  const PlainEnd& plain = plain_end_of(*scenario_.variant, index);
  expect(home->find(end.result) == plain.latents,
         name + " has other latents than undisturbed");
  expect(!scenario_.decode || home->find(kPixelsSlot) == plain.pixels,
         name + " has other pixels than undisturbed");
  // What was on its way when the whole company ended is not shown again.
  expect(!scenario_.is_observed || scenario_.rebuild_at > 0 ||
             points_[index] == plain.points,
         name + " was shown with other points than undisturbed");
  const samplers::Progress& progress = end.report.progress;
  expect(progress.nfe == plain.progress.nfe &&
             progress.rounds == plain.progress.rounds,
         name + " took other evaluations or rounds than undisturbed");
}

void Ledger::asked(const JobProgress& progress) {
  expect(progress.samples_done >= reported_, "progress went back");
  expect(progress.samples_done <= ended_.size(),
         "progress counts samples that have not ended");
  reported_ = progress.samples_done;
}

void Ledger::asked(const EndJob& end) {
  expect(!has_ended_, "the job ends twice");
  has_ended_ = true;
  if (end.failure) {
    const bool nobody_left =
        std::ranges::all_of(workers_, [](const Incarnation& worker) {
          return worker.is_gone || worker.drains;
        });
    gave_up_ =
        nobody_left ||
        static_cast<std::size_t>(num_failed_ + num_cancelled_) == ended_.size();
    expect(gave_up_, "the job was given up: " + end.failure->place + ": " +
                         end.failure->message);
    return;
  }
  expect(ended_.size() == static_cast<std::size_t>(scenario_.num_samples),
         "the job ends with " + std::to_string(ended_.size()) + " samples of " +
             std::to_string(scenario_.num_samples));
  expect(end.unfinished.empty(), "a job that is done has unfinished samples");
}

}  // namespace troupe::actors::simulator
