// What happens in the world, and what the policies' commands do to it.

#include "tests/simulator/world.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <set>
#include <utility>

namespace troupe::actors::simulator {
namespace {

/// A job in which no pass ended and no worker began for so long hangs.
constexpr Duration kHang = std::chrono::seconds(60);
/// Undisturbed, a job of a scenario takes some seconds.
constexpr Duration kForever = std::chrono::minutes(5);
/// Events between two looks at everything that is on its way.
constexpr std::uint64_t kWholeCheck = 64;
/// More than a scenario has, with those that join.
constexpr int kMostClasses = 8;
/// What is on its way when a job ends still arrives.
constexpr Duration kAfterTheEnd = std::chrono::seconds(1);

}  // namespace

CoordinatorOptions World::coordinator_options(const Scenario& scenario,
                                              int num_workers) {
  CoordinatorOptions options;
  for (int i = 0; i < scenario.num_samples; ++i) {
    options.samples.push_back(static_cast<std::uint64_t>(i));
  }
  const Variant& variant = *scenario.variant;
  options.make_method =
      samplers::method_maker(variant.method, *variant.schedule);
  options.method = variant.method;
  options.workers.assign(scenario.workers.begin(),
                         scenario.workers.begin() + num_workers);
  options.decode = scenario.decode;
  options.trajectory = scenario.is_observed;
  options.preview_every = scenario.is_observed ? kPreviewEvery : 0;
  options.value_sizes = scenario.value_sizes;
  for (int w = 0; w < num_workers; ++w) {
    const int process = scenario.workers[static_cast<std::size_t>(w)].process;
    for (const int one : {kHomeProcess, process}) {
      options.value_budgets[one] =
          scenario.value_budgets.at(static_cast<std::size_t>(one));
    }
  }
  options.lease = scenario.lease;
  options.cuts = scenario.cuts;
  if (scenario.links) {
    options.value_budgets[kHomeProcess] = scenario.value_budgets.front();
    options.waits_for_processes = num_workers == 0;
    options.num_classes = kMostClasses;
  }
  return options;
}

World::World(const Scenario& scenario, const Sabotage& sabotage)
    : plan_(scenario),
      scenario_(as_begun(scenario)),
      sabotage_(sabotage),
      random_(split_mix(scenario.seed) + 1),
      stores_(static_cast<std::size_t>(scenario_.num_processes)),
      ledger_(scenario_),
      coordinator_(sabotaged(
          coordinator_options(scenario_, scenario_.num_at_start), sabotage)),
      supervisor_(most_workers(scenario), scenario.restart),
      workers_(static_cast<std::size_t>(scenario_.num_at_start)) {}

Outcome World::run() {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    start_worker(static_cast<int>(w));
  }
  queue_.add(now() + scenario_.pulse, Pulse{});
  for (const Fault& fault : scenario_.faults) {
    queue_.add(fault.when, fault);
  }
  if (is_linked()) {
    begin_dialling();
  }
  try {
    while (!ledger_.first_error() &&
           !(ledger_.has_ended() && now() > ended_ + kAfterTheEnd)) {
      ledger_.expect(now() - last_work_ < kHang, "the job hangs");
      ledger_.expect(now() - TimePoint{} < kForever, "the job never ends");
      if (!link_queue_.empty() && link_queue_.next() <= queue_.next()) {
        handle_next_of_links();
      } else {
        handle_next();
      }
    }
    check_ended_stores();
  } catch (const std::exception& error) {
    ledger_.expect(false, std::string("a policy threw: ") + error.what());
  }
  outcome_.error = ledger_.first_error();
  outcome_.gave_up = ledger_.gave_up();
  outcome_.failed_samples = ledger_.num_failed();
  outcome_.cancelled_samples = ledger_.num_cancelled();
  outcome_.rebuilds = static_cast<int>(num_rebuilds_);
  outcome_.took = ended_ - TimePoint{};
  count_links();
  return outcome_;
}

void World::handle_next() {
  Happening next = queue_.take();
  if (const auto runner = runner_of(next);
      runner && now() < frozen_until(*runner)) {
    queue_.add(frozen_until(*runner), std::move(next));
    return;
  }
  std::visit([this](auto& happening) { handle(happening); }, next);
  if (++outcome_.num_events % kWholeCheck == 0) {
    check_grants();
    check_values();
  }
  if (outcome_.num_events == scenario_.rebuild_at && !ledger_.has_ended()) {
    rebuild();
  }
}

void World::hop(int from, int to, Happening message) {
  TimePoint& last = last_arrival_[{from, to}];
  last = std::max(last, now() + scenario_.link.latency +
                            random_.between(Duration{}, scenario_.link.jitter));
  queue_.add(last, std::move(message));
}

// ---- events

void World::handle(ToCoordinator& message) {
  if (const auto* up = std::get_if<WorkerUp>(&message.event)) {
    ledger_.heard(*up, now());
  } else if (const auto* down = std::get_if<WorkerDown>(&message.event)) {
    ledger_.heard(*down);
  } else if (const auto* beat = std::get_if<WorkerBeat>(&message.event)) {
    ledger_.heard(*beat, now());
  } else if (const auto* result = std::get_if<GrantResult>(&message.event)) {
    outcome_.late_results +=
        std::ranges::any_of(
            result->grants,
            [this](std::uint64_t grant) { return ledger_.is_held(grant); })
            ? 0
            : 1;
    ledger_.heard(*result);
  } else if (const auto* ended = std::get_if<ProcessDown>(&message.event)) {
    ledger_.heard(*ended, now());
  } else if (const auto* joined = std::get_if<ProcessJoined>(&message.event)) {
    ledger_.heard(*joined);
  } else if (const auto* drain = std::get_if<DrainProcess>(&message.event)) {
    ledger_.heard(*drain);
  } else if (const auto* came =
                 std::get_if<IntermediateFetched>(&message.event)) {
    intermediate_ = came;
  }
  std::vector<CoordinatorCommand> commands =
      coordinator_.on(message.event, now());
  if (sabotage_.of_commands) {
    sabotage_.of_commands(commands);
  }
  for (CoordinatorCommand& command : commands) {
    std::visit([this](auto& c) { perform(c); }, command);
  }
  intermediate_ = nullptr;
  ledger_.check_answers();
  if (const auto* cancel = std::get_if<CancelSample>(&message.event)) {
    check_cancelled(*cancel);
  }
  // G1, whatever the order in which an event's grants leave.
  for (const ValueName& name : std::exchange(granted_inputs_, {})) {
    ledger_.expect(is_somewhere(name) || ledger_.is_being_made(name),
                   "a task is granted before those that make its inputs");
  }
}

void World::handle(ToSupervisor& message) {
  for (SupervisorCommand& command : supervisor_.on(message.event, now())) {
    std::visit([this](auto& c) { perform(c); }, command);
  }
}

void World::handle(ToWorker& message) {
  Worker& worker = at(message.worker);
  // What is sent to an incarnation that has ended is lost.
  if (!worker.policy || worker.epoch != message.epoch) {
    return;
  }
  feed(message.worker, std::move(message.event));
}

/// As Firing: then its executor takes the next pass, if it is free.
void World::feed(int index, WorkerEvent event) {
  if (!at(index).policy) {
    return;
  }
  std::vector<std::uint64_t> recalled;
  if (const auto* recall = std::get_if<Recall>(&event)) {
    recalled = held_of(index, recall->grants);
  }
  std::vector<WorkerCommand> commands = at(index).policy->on(std::move(event));
  outcome_.kept_recalls += held_of(index, recalled).empty() ? 0 : 1;
  for (WorkerCommand& command : commands) {
    std::visit([&](auto& c) { perform(index, c); }, command);
  }
  start_pass(index);
}

/// Those of the grants that the worker holds.
std::vector<std::uint64_t> World::held_of(
    int index, const std::vector<std::uint64_t>& grants) {
  const std::vector<std::uint64_t>& held = at(index).policy->held();
  std::vector<std::uint64_t> both;
  std::ranges::copy_if(grants, std::back_inserter(both),
                       [&held](std::uint64_t grant) {
                         return std::ranges::binary_search(held, grant);
                       });
  return both;
}

void World::handle(StartChild& start) {
  if (has_ended(process_of(start.child))) {
    return;
  }
  Worker& worker = at(start.child);
  const TimePoint slow_until = worker.slow_until;
  const double slowness = worker.slowness;
  worker = {};
  worker.policy.emplace(start.child, start.epoch, process_of(start.child));
  worker.epoch = start.epoch;
  worker.slow_until = slow_until;  // it is the device that is slow
  worker.slowness = slowness;
  last_work_ = now();
  send(supervisor_of(start.child), kCoordinator,
       ToCoordinator{WorkerUp{start.child, start.epoch}});
}

void World::handle(PassEnds& end) {
  const Worker& worker = at(end.worker);
  if (!worker.pass || worker.pass->number != end.pass) {
    return;
  }
  if (worker.pass->end > now()) {
    queue_.add(worker.pass->end, end);  // something made it take longer
    return;
  }
  end_pass(end.worker);
}

void World::handle(Thaws& thaw) {
  Worker& worker = at(thaw.worker);
  if (worker.policy && now() >= worker.frozen_until) {
    if (worker.exit) {
      end_worker(thaw.worker, *worker.exit);
    } else {
      start_pass(thaw.worker);
    }
  }
}

void World::handle(Pulse& /*pulse*/) {
  queue_.add(now() + scenario_.pulse, Pulse{});
  if (now() >= frozen_until(kHomeProcess)) {
    ToCoordinator tick{TimeTick{}};
    handle(tick);
    if (!ledger_.has_ended()) {
      check_leases();
    }
  }
  check_links();
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    const Worker& worker = at(w);
    const int process = process_of(w);
    if (worker.policy && now() >= frozen_until(process)) {
      // With links a process asks its own.
      const bool is_remote = is_linked() && process != kHomeProcess;
      send(is_remote ? actor_of_process(process) : kCoordinator, w,
           ToWorker{w, worker.epoch, BeatAsked{ticks_of(worker)}});
    }
  }
}

// ---- what the coordinator asks for

/// A process holds the value, as far as the coordinator can know.
bool World::is_somewhere(const ValueName& name) const {
  for (int process = 0; process < scenario_.num_processes; ++process) {
    if (has_ended(process) || is_out(process) ||
        stores_[static_cast<std::size_t>(process)].find(name)) {
      return true;
    }
  }
  return false;
}

void World::perform(Grant& grant) {
  ledger_.asked(grant, now());
  const SymbolStore& own = store(process_of(grant.worker));
  for (const SampleTask& work : grant.tasks) {
    for (const samplers::Slot slot : work.task.inputs) {
      const ValueName name{work.sample_index, work.run, slot};
      ledger_.expect(
          slot == samplers::kInitialSlot || own.find(name) ||
              has_ended(process_of(grant.worker)) ||
              std::ranges::find(grant.sources, name, &RemoteValue::name) !=
                  grant.sources.end(),
          "a task is granted before its inputs are there");
      if (slot != samplers::kInitialSlot) {
        granted_inputs_.push_back(name);
      }
    }
  }
  const int worker = grant.worker;
  const std::uint32_t epoch = grant.epoch;
  send(kCoordinator, worker, ToWorker{worker, epoch, std::move(grant)});
}

void World::perform(Redirect& redirect) {
  ledger_.asked(redirect);
  const int worker = redirect.worker;
  const std::uint32_t epoch = redirect.epoch;
  send(kCoordinator, worker, ToWorker{worker, epoch, std::move(redirect)});
}

void World::perform(Recall& recall) {
  send(kCoordinator, recall.worker,
       ToWorker{recall.worker, recall.epoch, std::move(recall)});
}

void World::perform(ShowIntermediate& show) {
  const bool is_there = intermediate_ != nullptr &&
                        intermediate_->gone.empty() &&
                        intermediate_->sample_index == show.sample_index &&
                        ledger_.run_of(show.sample_index) == intermediate_->run;
  ledger_.expect(is_there, "what did not come is shown");
  if (is_there) {
    ++outcome_.intermediates;
    ledger_.asked(show, copied_.at(intermediate_->number));
  }
}

void World::perform(EndSample& end) {
  cuts_.erase(end.report.sample_index);
  const bool is_done = end.report.status == SampleStatus::done;
  ledger_.asked(
      end, is_done ? store(kHomeProcess).open(end.report.sample_index, end.run)
                   : nullptr);
}

void World::perform(JobProgress& progress) { ledger_.asked(progress); }

void World::perform(FenceWorker& fence) {
  const Worker& worker = at(fence.worker);
  const bool is_there =
      worker.policy && worker.epoch == ledger_.epoch_of(fence.worker);
  const TimePoint troubled =
      std::max(worker.frozen_until, excused_until(process_of(fence.worker)));
  ledger_.expect(
      !is_there || (troubled > TimePoint{} &&
                    now() < troubled + ledger_.longest_lease(fence.worker) +
                                2 * scenario_.pulse),
      "a worker that shows life is fenced");
  ledger_.asked(fence, now());
  ++outcome_.fences;
  ask_to_end(fence.worker,
             {Errc::job_failed, "worker", "showed no life for its lease", {}});
}

void World::perform(RetireWorker& retire) {
  ask_to_end(retire.worker,
             {Errc::device_lost, retire.cause.place, retire.cause.message, {}});
}

void World::perform(EndJob& end) {
  ledger_.asked(end);
  ended_ = now();
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    if (!is_linked() || process_of(w) == kHomeProcess) {
      send(kCoordinator, w, ToWorker{w, ledger_.epoch_of(w), StopWork{}});
    }
  }
  for (int process = 1; is_linked() && process < scenario_.num_processes;
       ++process) {
    send(kCoordinator, actor_of_process(process), Over{process});
  }
}

}  // namespace troupe::actors::simulator
