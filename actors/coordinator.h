#pragma once

#include <memory>

#include "actors/messages.h"
#include "actors/worker_core.h"

namespace troupe::actors {

struct CoordinatorSpec {
  CoordinatorOptions options;
  std::shared_ptr<JobContext> job;
  ObserverActor observer;
  int preview_every = 0;  ///< model calls between previews; 0: none
  bool trace = false;     ///< whether observers get spans
};

/// The coordinator's shell: hands events to CoordinatorPolicy and carries out
/// what it says. Looks at the clock four times a second.
/// Errors: Errc::invalid_argument and those of make_method.
[[nodiscard]] CoordinatorActor spawn_coordinator(caf::actor_system& system,
                                                 CoordinatorSpec spec);

}  // namespace troupe::actors
