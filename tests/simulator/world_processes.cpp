// The part of World for whole processes: their messages, how they end, and how
// the company is put up again.

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {

void World::perform(FreeValues& free) {
  const int process = free.process;
  send(kCoordinator, actor_of_process(process),
       ToProcess{process, std::move(free)});
}

void World::perform(DropRuns& drop) {
  ledger_.asked(drop);
  outcome_.new_runs += drop.last_run ? 1 : 0;
  send(kCoordinator, actor_of_process(drop.process),
       ToProcess{drop.process, drop});
}

/// The shell of a process ends it at once; over a link, a message ends it.
void World::perform(ReleaseProcess& release) {
  ++outcome_.releases;
  ledger_.asked(release);
  if (is_linked()) {
    member(release.process).is_released = true;
    send(kCoordinator, actor_of_process(release.process),
         Over{release.process});
  } else {
    forget_process(release.process);
  }
}

void World::start_worker(int worker) {
  const Duration delay = scenario_.delays.at(static_cast<std::size_t>(worker));
  queue_.add(now() + delay, ToSupervisor{StartDue{worker}});
}

/// `worker`: the first of the process.
void World::join_process(int worker) {
  if (is_linked()) {
    Dials dials{plan_.workers.at(static_cast<std::size_t>(worker)).process};
    handle(dials);
    return;
  }
  const int process = process_of(worker);
  ProcessJoined joined{
      process,
      {},
      scenario_.value_budgets.at(static_cast<std::size_t>(process))};
  for (const WorkerTraits& traits : scenario_.workers) {
    if (traits.process == process) {
      joined.workers.push_back(traits);
    }
  }
  ToCoordinator message{std::move(joined)};
  handle(message);
}

void World::perform(AdmitProcess& admit) {
  if (is_linked()) {
    let_in(admit);
    return;
  }
  ledger_.asked(admit);
  for (int w = admit.first_worker;
       w < admit.first_worker + admit.num_workers && !ledger_.first_error();
       ++w) {
    workers_.emplace_back();
    start_worker(w);
  }
}

void World::perform(RefuseProcess& refuse) {
  ledger_.expect(false,
                 "a process is refused that may join: " + refuse.cause.message);
}

void World::handle(ToProcess& message) {
  if (has_ended(message.process)) {
    return;
  }
  SymbolStore& own = store(message.process);
  if (const auto* free = std::get_if<FreeValues>(&message.news)) {
    for (const FreedSlots& freed : free->frees) {
      own.free(freed);
    }
  } else {
    const auto& drop = std::get<DropRuns>(message.news);
    own.drop(drop);
    for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
      if (process_of(w) == message.process && !drop.all_answered) {
        feed(w, drop);
      }
    }
  }
  look_after_waiters(message.process);
}

/// With its workers, its supervisor and its values. What it has sent arrives.
void World::forget_process(int process) {
  ended_processes_.insert(process);
  store(process) = {};
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (process_of(static_cast<int>(w)) == process) {
      workers_[w].policy.reset();
      workers_[w].pass.reset();
      workers_[w].exit.reset();
    }
  }
  awaited_.erase(process);
  if (is_linked()) {
    parked_.erase(process);  // who asked learns it from the link
  }
  look_after_waiters(process);
}

void World::end_process(int process) {
  if (is_linked()) {
    kill_member(process);
    return;
  }
  forget_process(process);
  queue_.add(
      now() + scenario_.process.process_notice,
      ToCoordinator{ProcessDown{
          process, {Errc::job_failed, "process", "has ended", {}}, true}});
}

/// The whole company ends at once and is put up again. It goes on from the job,
/// the samples that have ended and the newest cuts.
void World::rebuild() {
  ++num_rebuilds_;
  queue_.erase_if([](const Happening& happening) {
    return !std::holds_alternative<Fault>(happening) &&
           !std::holds_alternative<Pulse>(happening);
  });
  for (SymbolStore& store : stores_) {
    store = {};
  }
  ended_processes_.clear();
  fetches_.clear();
  parked_.clear();
  awaited_.clear();
  for (auto& [index, cuts] : cuts_) {
    if (!cuts.empty()) {
      auto newest = cuts.extract(std::prev(cuts.end()));
      cuts.clear();
      cuts.emplace(0, std::move(newest.mapped()));
    }
  }
  ledger_.heard_of_rebuild();
  coordinator_ = CoordinatorPolicy(sabotaged(options_of_rebuilt(), sabotage_));
  supervisor_ = SupervisorPolicy(static_cast<int>(scenario_.workers.size()),
                                 scenario_.restart);
  std::ranges::fill(workers_, Worker{});
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    start_worker(static_cast<int>(w));
  }
  last_work_ = now();
}

CoordinatorOptions World::options_of_rebuilt() {
  constexpr std::uint32_t kRunsOfACoordinator = 1U << 16U;
  CoordinatorOptions options =
      coordinator_options(scenario_, static_cast<int>(workers_.size()));
  std::erase_if(options.samples, [this](std::uint64_t index) {
    return ledger_.has_ended(index);
  });
  options.first_run = num_rebuilds_ * kRunsOfACoordinator;
  for (const auto& [index, cuts] : cuts_) {
    if (!cuts.empty()) {
      options.begun.emplace(index, cuts.at(0).cut);
    }
  }
  return options;
}

}  // namespace troupe::actors::simulator
