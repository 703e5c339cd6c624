#pragma once

#include <functional>
#include <memory>

#include "actors/messages.h"
#include "actors/worker_core.h"
#include "actors/worker_place.h"
#include "kernels/core/context.h"
#include "kernels/core/executor.h"

namespace troupe::actors {

/// One worker of a node.
struct WorkerSpec {
  int worker = 0;
  std::uint32_t epoch = 0;
  WorkerPlace place;
  std::shared_ptr<JobContext> job;
  std::unique_ptr<Executor> executor;  ///< its one compute thread
  CoordinatorActor coordinator;        ///< gets results and beats
};

/// The worker's shell.
///   Grant ──▶ executor: queued, then waited for ──▶ WorkDone
///   WorkDone ──▶ GrantResult to the coordinator
///   pulse ──▶ WorkerBeat to the coordinator
///   halt ──▶ stops at the next block
/// Errors: those of ExecContext.
[[nodiscard]] WorkerActor spawn_worker(caf::actor_system& system,
                                       WorkerSpec spec);

}  // namespace troupe::actors
