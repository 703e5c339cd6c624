#pragma once

#include <functional>
#include <vector>

#include "actors/messages.h"

namespace troupe::actors {

/// How a job went, as its observers' actor saw it.
struct WatchedJob {
  EndJob end;
  std::vector<SampleReport> ended;  ///< in the order in which they ended
};

struct WatchSpec {
  std::vector<Observer*> observers;  ///< outlive the actor
  /// Called once, after the observers have seen everything. Any thread.
  std::function<void(WatchedJob)> on_end;
};

/// The observers' shell: passes on what the coordinator tells, in order. One
/// that throws ends the job.
[[nodiscard]] ObserverActor spawn_watch(caf::actor_system& system,
                                        WatchSpec spec);

}  // namespace troupe::actors
