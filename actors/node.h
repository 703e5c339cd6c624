#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "actors/messages.h"
#include "actors/worker_core.h"
#include "actors/worker_place.h"
#include "kernels/core/executor.h"

namespace troupe::actors {

/// What a host gives to a job.
struct NodeSpec {
  std::vector<WorkerPlace> workers = {{}};
  RestartOptions restart;
  /// Weights, schedule and samples, shared by all its workers.
  std::shared_ptr<JobContext> job;
  /// The compute thread of a worker.
  std::function<std::unique_ptr<Executor>(int worker)> make_executor;
  CoordinatorActor coordinator;
};

/// The node's shell: has a supervisor start its workers, presents them to the
/// coordinator and asks for their beats.
[[nodiscard]] NodeActor spawn_node(caf::actor_system& system, NodeSpec spec);

}  // namespace troupe::actors
