#pragma once

#include "actors/messages.h"

namespace troupe::actors {

/// Threads of an actor system (two schedulers, the timer, the printer), and the
/// thread on which other threads are joined.
inline constexpr int kSystemThreads = 5;

/// The actor system of a process.
class SystemConfig final : public caf::actor_system_config {
 public:
  SystemConfig();
};

}  // namespace troupe::actors
