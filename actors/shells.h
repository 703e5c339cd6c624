#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/result_inbox.h"
#include "actors/runtime.h"
#include "actors/worker_core.h"
#include "actors/worker_traits.h"
#include "kernels/core/executor.h"

// The actors: the specification that each actor is spawned with, and how errors
// end an actor. An actor's behaviour stands in the file of its name; what
// coordinator, worker and supervisor decide stands in the policies of their
// names.

namespace troupe::actors {

struct CoordinatorSpec {
  CoordinatorOptions options;
  std::shared_ptr<JobContext> job;
  std::shared_ptr<ValueStore> store;  ///< of the coordinator's process
  ObserverActor observer;
  bool trace = false;  ///< whether observers get passes
  /// Where threads are waited for that may wait for a device; null: where the
  /// coordinator ends.
  Executor* joiner = nullptr;
  /// See Detours.
  std::function<std::string(int process)> name_of;
  /// Where workers of its process leave results; null: they send them.
  std::shared_ptr<ResultInbox> inbox;
};

/// The coordinator's shell: hands events to CoordinatorPolicy and carries out
/// what it says. Looks at the clock four times a second.
/// Errors: Errc::invalid_argument and those of make_method.
[[nodiscard]] CoordinatorActor spawn_coordinator(caf::actor_system& system,
                                                 CoordinatorSpec spec);

/// One worker of a node.
struct WorkerSpec {
  int worker = 0;
  std::uint32_t epoch = 0;
  WorkerTraits traits;
  std::shared_ptr<JobContext> job;
  std::shared_ptr<ValueStore> store;  ///< of its process
  int process = kHomeProcess;
  std::unique_ptr<Executor> executor;  ///< its one compute thread
  CoordinatorActor coordinator;        ///< gets results and beats
  std::shared_ptr<ResultInbox> inbox;  ///< the coordinator's; null: none
  /// Where the compute thread of a worker that has ended is waited for; null:
  /// where the worker ends.
  Executor* joiner = nullptr;
};

/// The worker's shell.
///   Grant ──▶ Firing: runs each task when its inputs are there, and sends
///             GrantResults to the coordinator
///   pulse ──▶ WorkerBeat to the coordinator
///   halt ──▶ stops at the next block
/// Errors: those of ExecContext.
[[nodiscard]] WorkerActor spawn_worker(caf::actor_system& system,
                                       WorkerSpec spec);

/// What a process gives to a job.
struct NodeSpec {
  int process = kHomeProcess;
  /// Its workers' numbers begin here. One that joins gets the number with the
  /// answer.
  int first_worker = 0;
  bool joins = false;  ///< comes while the job runs: asks before it begins
  std::vector<WorkerTraits> workers = {{}};
  std::uint64_t value_budget = 0;  ///< see CoordinatorOptions::value_budgets
  ProcessMeans means = {};         ///< of one that joins
  RestartOptions restart;
  std::shared_ptr<JobContext> job;
  std::shared_ptr<ValueStore> store;  ///< of all its workers
  /// The compute thread of a worker; empty: a ThreadExecutor.
  std::function<std::unique_ptr<Executor>(int worker)> make_executor;
  CoordinatorActor coordinator;
  std::shared_ptr<ResultInbox> inbox;  ///< see WorkerSpec
  Executor* joiner = nullptr;          ///< see WorkerSpec; outlives the actors
};

/// The node's shell: has a supervisor start its workers, presents itself and
/// them to the coordinator, asks for their beats and frees values.
[[nodiscard]] NodeActor spawn_node(caf::actor_system& system, NodeSpec spec);

struct SupervisorSpec {
  int num_children = 1;
  RestartOptions restart;
  std::shared_ptr<const Clock> clock;
  /// Makes an incarnation of a worker. An exception counts as the end of the
  /// incarnation.
  std::function<WorkerActor(int worker, std::uint32_t epoch)> start;
  NodeActor node;  ///< hears who is up and who is down
};

/// The supervisor's shell: starts workers, watches them, starts them again.
[[nodiscard]] SupervisorActor spawn_supervisor(caf::actor_system& system,
                                               SupervisorSpec spec);

/// How a job went, as its observers' actor saw it.
struct JobHistory {
  EndJob end;
  std::vector<SampleReport> ended;  ///< in the order in which they ended
};

struct ObserversSpec {
  std::vector<Observer*> observers;  ///< outlive the actor
  /// Called after the observers have seen everything. Any thread.
  std::function<void(JobHistory)> on_end;
};

/// The observers' shell: passes on the coordinator's reports, in order. An
/// observer that throws ends the job.
[[nodiscard]] ObserverActor spawn_observers(caf::actor_system& system,
                                            ObserversSpec spec);

/// The actors of a job in one process.
struct Company {
  ObserverActor observers;
  CoordinatorActor coordinator;
  std::vector<NodeActor> nodes;

  /// Ends the actors and drops their handles.
  void dismiss();
};
/// What stands between the coordinator and its processes: nothing, or
/// something that carries messages and values.
struct Detours {
  /// What nodes and workers know as the coordinator.
  std::function<CoordinatorActor(caf::actor_system&, CoordinatorActor)>
      coordinator;
  std::function<std::shared_ptr<ValueChannel>(std::shared_ptr<ValueChannel>)>
      channel;
  /// The company is there, until `end`: others may come to it.
  std::function<void(caf::actor_system&, CoordinatorActor)> begin;
  std::function<void()> end;
  /// What the log calls a process; empty: by its number.
  std::function<std::string(int process)> name_of;
};

/// Spawns the actors of a company and introduces them to each other. If one of
/// them ends before the job, the job ends too. The node of another process is
/// the exception: that process only leaves the job. `observers.on_end` is
/// called once, always.
/// Errors: those of spawn_coordinator.
[[nodiscard]] Company spawn_company(caf::actor_system& system,
                                    ObserversSpec observers,
                                    CoordinatorSpec coordinator,
                                    std::vector<NodeSpec> nodes,
                                    const Detours& detours = {});

/// As run_job, with detours.
[[nodiscard]] JobResult run_company(const JobSpec& spec,
                                    const Detours& detours);

/// A failure as CAF's error: the code and the text, nothing else.
[[nodiscard]] inline caf::error to_caf_error(const Failure& failure) {
  return caf::make_error(failure.code, failure.message);
}

/// Why an actor ended.
[[nodiscard]] Failure cause_of(const caf::error& reason,
                               const caf::actor_system& system);

/// Runs a handler's body. An exception is passed to `last_words` and ends the
/// actor. The error becomes the exit reason, so monitors of the actor learn the
/// cause.
template <typename Self, std::invocable Body, std::invocable<Failure> Words>
void guard(Self* self, const Body& body, const Words& last_words) {
  try {
    body();
  } catch (...) {
    const Failure cause = current_failure();
    last_words(cause);
    self->quit(to_caf_error(cause));
  }
}

template <typename Self, std::invocable Body>
void guard(Self* self, const Body& body) {
  guard(self, body, [](const Failure&) {});
}

}  // namespace troupe::actors
