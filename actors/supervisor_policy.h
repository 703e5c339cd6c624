#pragma once

#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "actors/grant.h"
#include "kernels/core/clock.h"

namespace troupe::actors {

/// How children that end are started again.
struct RestartOptions {
  Duration first_delay = std::chrono::milliseconds(50);
  double factor = 2.0;  ///< each further restart in the window waits longer
  Duration longest_delay = std::chrono::seconds(10);
  /// Within `window`, then the child is given up. One task may end it once
  /// among others and three times alone (CoordinatorOptions::max_losses).
  int max_restarts = 4;
  Duration window = std::chrono::minutes(1);
};

// Events.
struct ChildDown {
  int child = 0;
  std::uint32_t epoch = 0;
  Failure cause;
};
/// A child is to begin, for the first time or after its delay.
struct StartDue {
  int child = 0;
};
using SupervisorEvent = std::variant<ChildDown, StartDue>;

// Commands.
/// Start the child; its incarnation is `epoch`, from 1 on.
struct StartChild {
  int child = 0;
  std::uint32_t epoch = 0;
};
/// Send StartDue after `delay`.
struct WaitBeforeStart {
  int child = 0;
  Duration delay{};
};
/// A WorkerDown tells those who count on the child.
using SupervisorCommand = std::variant<StartChild, WaitBeforeStart, WorkerDown>;

/// Keeps a fixed set of children alive.
///
///   running ──down──▶ waiting ──delay over──▶ running
///      └──down, too often──▶ given up
///
/// What a new start cannot mend is not tried again: a device that is lost, or
/// that this build or machine cannot use.
///
/// Thread: one.
class SupervisorPolicy {
 public:
  SupervisorPolicy(int num_children, RestartOptions options);

  [[nodiscard]] std::vector<SupervisorCommand> on(const SupervisorEvent& event,
                                                  TimePoint now);

 private:
  struct Child {
    std::uint32_t epoch = 0;
    bool running = false;
    std::deque<TimePoint> restarts;  ///< within the window
  };
  std::vector<SupervisorCommand> start(int index);
  std::vector<SupervisorCommand> child_down(const ChildDown& event,
                                            TimePoint now);

  RestartOptions options_;
  std::vector<Child> children_;
};

}  // namespace troupe::actors
