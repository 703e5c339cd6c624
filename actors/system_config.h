#pragma once

#include "actors/messages.h"

namespace troupe::actors {

/// Threads of an actor system (two schedulers, the timer, the printer), and the
/// thread on which other threads are joined.
inline constexpr int kSystemThreads = 5;

/// The actor system of a process.
class SystemConfig final : public caf::actor_system_config {
 public:
  SystemConfig() {
    add_message_types<caf::id_block::troupe>();
    // `sharing` answers twice as fast as `stealing` here and idles at nothing;
    // the rest of the machine is for computing.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
  }
};

}  // namespace troupe::actors
