#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/simulator/event_queue.h"
#include "actors/simulator/ledger.h"
#include "actors/simulator/scenario.h"
#include "actors/simulator/simulate.h"
#include "actors/simulator/symbols.h"
#include "actors/supervisor_policy.h"
#include "actors/worker_policy.h"

namespace troupe::actors::simulator {

/// One company in virtual time: the production policies of coordinator,
/// supervisor and workers, and around them what their shells and the machine do
/// otherwise. A policy's commands go out through five ports:
///
///   compute  a grant runs on a DeviceModel, one at a time per worker
///   wire     a message arrives after the time of a LinkModel
///   disk     what has ended leaves the store; nobody waits for a disk yet
///   process  workers start and end as a ProcessModel says
///   time     pulses, delays, and `now`
class World {
 public:
  World(const Scenario& scenario, const Sabotage& sabotage);
  [[nodiscard]] Outcome run();

 private:
  // What happens, at its time.
  struct ToCoordinator {
    CoordinatorEvent event;
  };
  struct ToSupervisor {
    SupervisorEvent event;
  };
  struct ToWorker {
    int worker = 0;
    std::uint32_t epoch = 0;
    WorkerEvent event;
  };
  /// A pass ends, unless something moved its end since.
  struct PassEnds {
    int worker = 0;
    std::uint64_t pass = 0;
  };
  struct Thaws {
    int worker = 0;
  };
  struct Pulse {};
  using Happening = std::variant<ToCoordinator, ToSupervisor, ToWorker,
                                 StartChild, PassEnds, Thaws, Pulse, Fault>;

  /// What a worker's executor computes.
  struct Pass {
    std::uint64_t number = 0;
    Grant grant;
    GrantResult result;
    struct Made {
      std::shared_ptr<SymbolTable> table;
      SampleTask work;
      std::vector<Symbol> outputs;
    };
    std::vector<Made> made;
    TimePoint start;
    TimePoint end;
  };
  struct Worker {
    std::optional<WorkerPolicy> policy;  ///< none: it is not up
    std::uint32_t epoch = 0;
    std::deque<Grant> queue;
    std::optional<Pass> pass;
    std::uint64_t ticks = 0;      ///< of passes that ended
    std::optional<Failure> exit;  ///< it is to end at its next block
    bool is_interrupted = false;  ///< passes end at their next block
    TimePoint frozen_since{};
    TimePoint frozen_until{};
    TimePoint slow_until{};
    double slowness = 1.0;
  };

  void handle(ToCoordinator& message);
  void handle(ToSupervisor& message);
  void handle(ToWorker& message);
  /// A worker begins.
  void handle(StartChild& start);
  void handle(PassEnds& end);
  void handle(Thaws& thaw);
  void handle(Pulse& pulse);
  void handle(Fault& fault);

  // Commands of the coordinator.
  void perform(Grant& grant);
  void perform(FreeSlots& free);
  void perform(ShowResult& show);
  void perform(EndSample& end);
  void perform(JobProgress& progress);
  void perform(FenceWorker& fence);
  void perform(RetireWorker& retire);
  void perform(EndJob& end);
  // Of the supervisor.
  void perform(StartChild& start);
  void perform(WaitBeforeStart& wait);
  void perform(WorkerDown& down);
  // Of worker `index`.
  void perform(int index, Grant& grant);
  void perform(int index, GrantResult& result);
  void perform(int index, InterruptWork& interrupt);
  void perform(int index, WorkerBeat& beat);

  void start_pass(int index);
  void end_pass(int index);
  void compute_pass(Pass& pass);
  [[nodiscard]] Duration duration_of(int index, const Grant& grant);
  void end_worker(int index, const Failure& cause);
  void ask_to_end(int worker, const Failure& cause);
  [[nodiscard]] std::uint64_t ticks_of(const Worker& worker) const;
  void end_at_next_block(int index);
  void check_leases();
  void check_grants();

  [[nodiscard]] TimePoint now() const { return queue_.now(); }
  [[nodiscard]] Worker& at(int worker) {
    return workers_.at(static_cast<std::size_t>(worker));
  }
  [[nodiscard]] const DeviceModel& device(int worker) const {
    return scenario_.devices.at(static_cast<std::size_t>(worker));
  }
  /// Sends between two actors; `from` and `to` are workers, or one of these.
  static constexpr int kCoordinator = -1;
  static constexpr int kSupervisor = -2;
  void send(int from, int to, Happening message);

  const Scenario& scenario_;
  const Sabotage& sabotage_;
  Random random_;
  EventQueue<Happening> queue_;
  SymbolStore store_;
  Ledger ledger_;
  CoordinatorPolicy coordinator_;
  SupervisorPolicy supervisor_;
  std::vector<Worker> workers_;
  std::map<std::pair<int, int>, TimePoint> last_arrival_;  ///< by sender, taker
  std::uint64_t next_pass_ = 0;
  TimePoint ended_{};      ///< the job
  TimePoint last_work_{};  ///< when a pass ended or a worker began
  std::set<std::uint64_t>
      countable_;  ///< samples that the result in hand is of
  Outcome outcome_;
};

}  // namespace troupe::actors::simulator
