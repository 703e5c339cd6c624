#pragma once

#include <functional>

#include "actors/messages.h"

namespace troupe::actors {

struct SupervisorSpec {
  int num_children = 1;
  RestartOptions restart;
  std::shared_ptr<const Clock> clock;
  /// Makes an incarnation of a worker; may throw, which counts as its end.
  std::function<WorkerActor(int worker, std::uint32_t epoch)> start;
  NodeActor node;  ///< hears who is up and who is down
};

/// The supervisor's shell: starts workers, watches them, starts them again.
[[nodiscard]] SupervisorActor spawn_supervisor(caf::actor_system& system,
                                               SupervisorSpec spec);

}  // namespace troupe::actors
