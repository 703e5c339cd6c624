#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "actors/grant.h"
#include "actors/packer.h"
#include "kernels/core/flat_table.h"
#include "kernels/core/inline_vector.h"
#include "kernels/core/variants.h"

namespace troupe::actors {

// Events.
/// An input that tasks waited for is in the worker's process.
struct InputHere {
  ValueName name;
};
/// It is not where it was looked for, and will not come.
struct InputGone {
  RemoteValue value;
};
struct WorkDone {
  GrantResult result;
};
struct StopWork {};
struct BeatAsked {
  std::uint64_t ticks = 0;  ///< blocks run so far
};
using WorkerEvent =
    JoinedVariant<WorkerMessage, std::variant<InputHere, InputGone, DropRuns,
                                              WorkDone, StopWork, BeatAsked>>;

// Commands: a result and a beat are to be sent.
/// The process frees these values.
struct FreeOwn {
  std::vector<FreedSlots> frees;
};
/// The process fetches these values, or waits for those that it will make
/// itself, and answers for each with InputHere or InputGone.
struct FetchInputs {
  std::vector<RemoteValue> values;
};
/// Ends what runs at the next block.
struct InterruptWork {};
using WorkerCommand =
    std::variant<FreeOwn, FetchInputs, GrantResult, InterruptWork, WorkerBeat>;

/// Decides what a worker does with its grants. A task fires when its inputs are
/// in the worker's process, or will be made by the same pass: whoever runs
/// passes asks for the next. A task that waits for inputs holds up no other.
///
///   Grant ──▶ waiting ──all inputs here──▶ ready ──next()──▶ running ──▶
///   result
///                └──an input is gone──▶ result
///   Redirect ──▶ what is waiting waits for somebody else
///   Recall ──▶ what is waiting or ready goes back
///   StopWork ──▶ stopped: takes no grants, runs nothing, still answers
///
/// Thread: one at a time.
class WorkerPolicy {
 public:
  /// `max_passes` may run at once: one is queued behind another on a GPU.
  WorkerPolicy(int worker, std::uint32_t epoch, int process, int max_passes = 1)
      : worker_(worker),
        epoch_(epoch),
        process_(process),
        max_passes_(max_passes) {}

  [[nodiscard]] std::vector<WorkerCommand> on(WorkerEvent event);

  /// Whether next() has something.
  [[nodiscard]] bool has_next() const noexcept {
    return !stopped_ && num_running_ < max_passes_ && !ready_.empty();
  }
  /// The tasks of the next pass; it has begun. `sources` of the pass are the
  /// inputs that were fetched.
  [[nodiscard]] std::optional<Grant> next();

  /// It holds grants, and all of them wait for inputs.
  [[nodiscard]] bool waits() const noexcept {
    return num_running_ == 0 && ready_.empty() && !waiting_.empty();
  }
  /// For checks: the grants that it holds.
  [[nodiscard]] const std::vector<std::uint64_t>& held() const noexcept {
    return held_;
  }

 private:
  struct Waiting {
    SampleTask task;
    InlineVector<ValueName, 2> missing;
    std::vector<RemoteValue> fetched;  ///< or still to be
  };
  struct Wanted {
    InlineVector<std::uint64_t, 2> waiters;  ///< grants
    InlineVector<int, 2> asked;  ///< processes that have not answered
  };
  using Commands = std::vector<WorkerCommand>;

  Commands handle(Grant& grant);
  Commands handle(Redirect& redirect);
  Commands handle(Recall& recall);
  Commands handle(InputHere& here);
  Commands handle(InputGone& gone);
  Commands handle(DropRuns& drop);
  Commands handle(WorkDone& done);
  Commands handle(StopWork& stop);
  Commands handle(BeatAsked& asked);

  void look_for_inputs(const std::vector<RemoteValue>& sources,
                       Waiting& waiting, FetchInputs& fetch);
  void note_here(std::uint64_t grant, const ValueName& name);
  [[nodiscard]] SampleTask take_whole(std::uint64_t grant);
  void let_go(std::uint64_t grant);
  void join_readers(std::vector<SampleTask>& pass);

  int worker_;
  std::uint32_t epoch_;
  int process_;
  int max_passes_;
  int max_rows_ = 1;
  bool stopped_ = false;
  int num_running_ = 0;
  std::uint64_t newest_ = 0;         ///< grant; their numbers rise
  std::vector<std::uint64_t> held_;  ///< grants, rising: all that follow
  FlatTable<std::uint64_t, Waiting> waiting_;  ///< by grant
  FlatTable<ValueName, Wanted> wanted_;
  /// What was fetched for grants that have not run yet.
  std::map<std::uint64_t, std::vector<RemoteValue>> fetched_;
  Packer ready_;
  TimePoint last_end_{};  ///< of what was done last
};

}  // namespace troupe::actors
