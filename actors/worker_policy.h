#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "actors/grant.h"

namespace troupe::actors {

// Events.
struct WorkDone {
  GrantResult result;
};
/// The inputs that a grant waits for are here, but for these.
struct InputsFetched {
  std::uint64_t grant = 0;
  std::vector<RemoteValue> gone;
};
struct StopWork {};
struct BeatAsked {
  std::uint64_t ticks = 0;  ///< blocks run so far
};
using WorkerEvent =
    std::variant<Grant, InputsFetched, WorkDone, StopWork, BeatAsked>;

// Commands: a grant is to run, a result and a beat are to be sent.
/// Its process is to free these.
struct FreeOwn {
  std::vector<FreedSlots> frees;
};
/// Its process is to fetch these, and to say so.
struct FetchInputs {
  std::uint64_t grant = 0;
  std::vector<RemoteValue> values;
};
/// Ends what runs at the next block.
struct InterruptWork {};
using WorkerCommand = std::variant<Grant, FreeOwn, FetchInputs, GrantResult,
                                   InterruptWork, WorkerBeat>;

/// Decides what a worker does with what it hears. Its executor is the queue:
/// grants go there as soon as their inputs are in its process, so the next
/// begins without a message in between; on a GPU it is queued while the former
/// runs. A grant that waits for inputs holds up no other.
///
///   working ──StopWork──▶ stopped (takes no grants, still answers)
///
/// Thread: one.
class WorkerPolicy {
 public:
  WorkerPolicy(int worker, std::uint32_t epoch)
      : worker_(worker), epoch_(epoch) {}

  [[nodiscard]] std::vector<WorkerCommand> on(const WorkerEvent& event);

 private:
  std::vector<WorkerCommand> handle(const Grant& grant);
  std::vector<WorkerCommand> handle(const InputsFetched& fetched);
  std::vector<WorkerCommand> handle(const WorkDone& done);
  std::vector<WorkerCommand> handle(const StopWork& stop);
  std::vector<WorkerCommand> handle(const BeatAsked& asked);

  int worker_;
  std::uint32_t epoch_;
  bool stopped_ = false;
  std::map<std::uint64_t, Grant> waiting_;  ///< for inputs
  std::set<std::uint64_t> held_;            ///< grants in the executor
  TimePoint last_end_{};                    ///< of what was done last
};

}  // namespace troupe::actors
