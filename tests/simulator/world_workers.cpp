// The part of World that is a worker's shell and its device.

#include <algorithm>
#include <map>

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {

void World::perform(int index, GrantResult& result) {
  send(index, kCoordinator, ToCoordinator{std::move(result)});
}

void World::perform(int index, InterruptWork& /*interrupt*/) {
  at(index).is_interrupted = true;
  if (at(index).pass) {
    end_at_next_block(index);
  }
}

void World::perform(int index, WorkerBeat& beat) {
  send(index, kCoordinator, ToCoordinator{beat});
}

Duration World::duration_of(int index, const Grant& grant) {
  const DeviceModel& model = device(index);
  const Worker& worker = at(index);
  const double slowness = now() < worker.slow_until ? worker.slowness : 1.0;
  const auto rows = static_cast<Duration::rep>(grant.tasks.size());
  const std::chrono::duration<double> alone =
      model.fixed + rows * model.per_row;
  return std::chrono::duration_cast<Duration>(
      alone * (slowness * (1.0 + model.jitter * random_.unit())));
}

/// The worker's next pass begins, if nothing runs.
void World::start_pass(int index) {
  Worker& worker = at(index);
  if (worker.pass || !worker.policy || worker.exit ||
      now() < worker.frozen_until) {
    return;
  }
  std::optional<Grant> next = worker.policy->next();
  if (!next) {
    return;
  }
  ledger_.begun(*next);
  Pass pass;
  pass.number = ++next_pass_;
  pass.grant = *std::move(next);
  pass.start = now();
  pass.end =
      worker.is_interrupted ? now() : now() + duration_of(index, pass.grant);
  compute_pass(pass);
  queue_.add(pass.end, PassEnds{index, pass.number});
  worker.pass = std::move(pass);
}

/// Reads what the pass begins with; what it makes is written when it ends.
void World::compute_pass(Pass& pass) {
  for (const SampleTask& work : pass.grant.tasks) {
    pass.result.grants.push_back(work.grant);
  }
  pass.result.worker = pass.grant.worker;
  pass.result.epoch = pass.grant.epoch;
  SymbolStore& own = store(process_of(pass.grant.worker));
  for (const RemoteValue& input : pass.grant.sources) {
    pass.result.held.push_back({input.name, {}});
  }
  std::vector<samplers::TaskResult> results;
  std::map<const SymbolTable*, std::map<samplers::Slot, Symbol>> made_before;
  for (const SampleTask& work : pass.grant.tasks) {
    const auto table = own.open(work.sample_index, work.run);
    auto& slots = made_before[table.get()];
    auto made = compute(work.task, *table, scenario_.variant->method, slots);
    if (!made) {
      ledger_.expect(!ledger_.is_held(work.grant) ||
                         !is_current({work.sample_index, work.run, 0}),
                     "a worker finds no input of a task that is waited for");
      pass.made.clear();
      pass.result.outcome =
          TasksFailed{{Errc::internal, "slots", "a slot is empty", {}}};
      return;
    }
    for (std::size_t k = 0; k < made->outputs.size(); ++k) {
      slots.emplace(work.task.outputs.at(k), made->outputs[k]);
    }
    results.push_back(std::move(made->result));
    pass.made.push_back({table, work, std::move(made->outputs)});
  }
  pass.result.outcome = TasksDone{std::move(results)};
}

void World::end_pass(int index) {
  Worker& worker = at(index);
  if (worker.exit) {
    end_worker(index, *worker.exit);
    return;
  }
  last_work_ = now();
  Pass pass = std::move(*worker.pass);
  worker.pass.reset();
  if (worker.is_interrupted) {
    pass.made.clear();
    pass.result.outcome =
        TasksFailed{{Errc::interrupted, "worker", "stop was requested", {}}};
  }
  for (const Pass::Made& made : pass.made) {
    for (std::size_t k = 0; k < made.outputs.size(); ++k) {
      const samplers::Slot slot = made.work.task.outputs.at(k);
      ledger_.expect(made.table->put(slot, made.outputs[k]),
                     "a slot is written with another value");
      pass.result.held.push_back(
          {{made.work.sample_index, made.work.run, slot}, {}});
    }
  }
  check_room(process_of(index));
  outcome_.num_tasks += pass.made.size();
  outcome_.tasks_of_joined +=
      index < scenario_.num_at_start ? 0 : pass.made.size();
  worker.ticks += static_cast<std::uint64_t>(blocks_of(pass.grant)) *
                  pass.grant.tasks.size();
  pass.result.ticks = worker.ticks;
  pass.result.span.start = pass.start;
  pass.result.span.duration = now() - pass.start;
  feed(index, WorkDone{std::move(pass.result)});
  look_after_waiters(process_of(index));
}

/// A pass of many simple tasks is charged for as many rows here, and shows life
/// between two of them: a real one is over at once.
int World::blocks_of(const Grant& grant) const {
  return std::max(device(grant.worker).blocks,
                  static_cast<int>(grant.tasks.size()));
}

std::uint64_t World::ticks_of(const Worker& worker) const {
  if (!worker.pass) {
    return worker.ticks;
  }
  const Pass& pass = *worker.pass;
  // A freeze moves start and end: until its end a pass stands where it was.
  const TimePoint seen = std::max(now(), worker.frozen_until);
  const double share = std::chrono::duration<double>(seen - pass.start) /
                       std::chrono::duration<double>(pass.end - pass.start);
  return worker.ticks + static_cast<std::uint64_t>(std::clamp(share, 0.0, 1.0) *
                                                   blocks_of(pass.grant)) *
                            pass.grant.tasks.size();
}

/// As send_exit to the incarnation that the coordinator knows: a worker that
/// computes ends at its next block.
void World::ask_to_end(int index, const Failure& cause) {
  const EndsWorker ends{index, ledger_.epoch_of(index), cause};
  if (is_linked() && process_of(index) != kHomeProcess) {
    send(kCoordinator, index, ends);
  } else {
    handle(ends);
  }
}

void World::tell_to_end(int index, const Failure& cause) {
  Worker& worker = at(index);
  if (!worker.policy) {
    return;
  }
  worker.exit = cause;
  if (now() < worker.frozen_until) {
    return;  // it notices when it thaws
  }
  if (!worker.pass) {
    end_worker(index, cause);
    return;
  }
  end_at_next_block(index);
}

/// Of the pass that runs; there must be one.
void World::end_at_next_block(int index) {
  Pass& pass = *at(index).pass;
  const Duration block =
      (pass.end - pass.start) / std::max(device(index).blocks, 1);
  const TimePoint from = std::max(now(), at(index).frozen_until);
  pass.end = std::min(pass.end, from + block);
  queue_.add(pass.end, PassEnds{index, pass.number});
}

void World::end_worker(int index, const Failure& cause) {
  Worker& worker = at(index);
  queue_.add(now() + scenario_.process.notice,
             ToSupervisor{ChildDown{index, worker.epoch, cause}});
  worker.policy.reset();
  worker.pass.reset();
  worker.exit.reset();
}

// ---- the supervisor

void World::perform(StartChild& start) {
  queue_.add(now() + scenario_.process.start, start);
}

void World::perform(WaitBeforeStart& wait) {
  queue_.add(now() + wait.delay, ToSupervisor{StartDue{wait.child}});
}

void World::perform(WorkerDown& down) {
  const int from = supervisor_of(down.worker);
  send(from, kCoordinator, ToCoordinator{std::move(down)});
}

}  // namespace troupe::actors::simulator
