#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/event_queue.h"
#include "actors/supervisor_policy.h"
#include "actors/worker_policy.h"
#include "tests/simulator/happening.h"
#include "tests/simulator/ledger.h"
#include "tests/simulator/link_pair.h"
#include "tests/simulator/scenario.h"
#include "tests/simulator/simulate.h"
#include "tests/simulator/symbols.h"

namespace troupe::actors::simulator {

/// One company in virtual time: the production policies of coordinator,
/// supervisor and workers, and around them what their shells and the machine do
/// otherwise. A policy's commands go out through five ports:
///
///   compute  a grant runs on a DeviceModel, one at a time per worker
///   wire     a message arrives after the time of a LinkModel, and so do a
///            question for a value and its answer
///   disk     what has ended leaves the store; nobody waits for a disk yet
///   process  workers start and end as a ProcessModel says
///   time     pulses, delays, and `now`
///
/// With links, what goes from one process to another goes over a LinkPair, and
/// the shells around it are those of actors/remote: see world_links.cpp.
class World final : private LinkListener {
 public:
  /// Keeps references to both.
  World(const Scenario& scenario, const Sabotage& sabotage);
  [[nodiscard]] Outcome run();

 private:
  /// `num_workers`: that are in the company.
  [[nodiscard]] static CoordinatorOptions coordinator_options(
      const Scenario& scenario, int num_workers);
  [[nodiscard]] static CoordinatorOptions sabotaged(CoordinatorOptions options,
                                                    const Sabotage& sabotage) {
    if (sabotage.of_options) {
      sabotage.of_options(options);
    }
    return options;
  }

  /// A process that has dialled, with the view of both sides.
  struct Member {
    int host = 0;
    std::unique_ptr<LinkPair> link;
    /// Letters of each side that have not arrived, and how many have.
    std::array<std::deque<std::shared_ptr<Letter>>, kNumSides> letters;
    std::array<std::uint64_t, kNumSides> num_arrived{};
    bool has_asked = false;    ///< to join, as far as the listener has heard
    bool is_out = false;       ///< the listener knows it no more
    bool is_reported = false;  ///< to the coordinator, as lost
    bool is_released = false;  ///< the coordinator has let it go
    std::optional<TimePoint> ended;
    TimePoint troubled_until;  ///< by faults of its link, of it and of home
    int first_worker = 0;      ///< once it was admitted
    int num_workers = 0;
  };

  /// Values that a process has asked others for.
  struct Fetch {
    int process = 0;
    std::size_t left = 0;  ///< questions without an answer
    std::vector<RemoteValue> gone;
    /// Who hears of the end.
    std::function<void(std::vector<RemoteValue> gone)> then;
    /// Whether somebody still waits for a value of it.
    std::function<bool(const ValueName&)> is_awaited;
  };

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
    std::optional<Pass> pass;
    std::uint64_t ticks = 0;      ///< of passes that ended
    std::optional<Failure> exit;  ///< it is to end at its next block
    bool is_interrupted = false;  ///< passes end at their next block
    TimePoint last_idle{};        ///< as a pulse found it
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
  void handle(ToProcess& message);
  void handle(Question& question);
  void handle(Answer& answer);
  void handle(Pulse& pulse);
  void handle(Fault& fault);
  void handle(Dials& dials);
  void handle_next();
  void handle_next_of_links();
  void handle(Post& post);
  void handle(Offered& offered);
  void handle(Admitted& admitted);
  void handle(const EndsWorker& ends);
  void handle(Over& over);
  void handle(LinkFault& fault);

  // What links say. `link`: the number of the process that dialled.
  void wake_link(int link, std::size_t what, TimePoint when) override;
  void link_up(int link, Side side) override;
  void letter_arrived(int link, Side side, std::uint64_t letter) override;
  void value_wanted(int link, Side side, net::WantId want,
                    const std::string& key) override;
  void round_trip_measured(int link, Side side, Duration taken) override;
  void link_cut(int link) override;
  void link_ended(int link, Side side,
                  const std::optional<net::Loss>& loss) override;

  // Commands of the coordinator.
  void perform(Grant& grant);
  void perform(FreeValues& free);
  void perform(DropRuns& drop);
  void perform(FetchValues& fetch);
  void perform(TakeCut& take);
  void perform(RestoreCut& restore);
  void copy_intermediate(const FetchIntermediate& fetch,
                         std::vector<RemoteValue> gone);
  void perform(Redirect& redirect);
  void perform(Recall& recall);
  void perform(AdmitProcess& admit);
  void perform(RefuseProcess& refuse);
  void perform(ReleaseProcess& release);
  void perform(FetchIntermediate& fetch);
  void perform(ShowPass& /*show*/) {}
  void perform(ShowIntermediate& show);
  void perform(EndSample& end);
  void perform(JobProgress& progress);
  void perform(FenceWorker& fence);
  void perform(LinkWeighed& /*weighed*/) {}
  void perform(RetireWorker& retire);
  void perform(EndJob& end);
  // Of the supervisor.
  void perform(StartChild& start);
  void perform(WaitBeforeStart& wait);
  void perform(WorkerDown& down);
  // Of worker `index`.
  void perform(int index, FreeOwn& free);
  void perform(int index, FetchInputs& fetch);
  void perform(int index, GrantResult& result);
  void perform(int index, InterruptWork& interrupt);
  void perform(int index, WorkerBeat& beat);

  void start_pass(int index);
  void end_pass(int index);
  void compute_pass(Pass& pass);
  [[nodiscard]] Duration duration_of(int index, const Grant& grant);
  void end_worker(int index, const Failure& cause);
  void ask_to_end(int worker, const Failure& cause);
  void tell_to_end(int worker, const Failure& cause);
  [[nodiscard]] int blocks_of(const Grant& grant) const;
  [[nodiscard]] std::uint64_t ticks_of(const Worker& worker) const;
  void end_at_next_block(int index);
  void feed(int index, WorkerEvent event);
  [[nodiscard]] std::vector<std::uint64_t> held_of(
      int index, const std::vector<std::uint64_t>& grants);
  /// What the process's workers and others wait for is there, or never will be.
  void look_after_waiters(int process);
  void answer_parked(int process, const std::vector<Question>& parked);
  void tell_who_awaits(int process,
                       std::set<std::pair<int, ValueName>>& awaited);
  void freeze(const Fault& fault);
  void end_in_cut(const std::vector<RemoteValue>& asked);
  void strike(const Fault& fault);
  void check_cancelled(const CancelSample& cancel);
  void end_process(int process);
  void start_worker(int worker);
  void join_process(int worker);
  [[nodiscard]] bool strikes(const Fault& fault) const;
  void forget_process(int process);
  void rebuild();
  [[nodiscard]] CoordinatorOptions options_of_rebuilt();
  void keep_cut(const TakeCut& take, std::vector<RemoteValue> gone);
  void begin_fetch(Fetch fetch, const std::vector<RemoteValue>& values);
  void answered(std::uint64_t fetch, const RemoteValue* gone);
  [[nodiscard]] bool is_current(const ValueName& name) const;
  /// Whether the coordinator knows of it, and has not freed it.
  [[nodiscard]] bool is_listed(const ValueName& name) const;
  [[nodiscard]] bool is_somewhere(const ValueName& name) const;
  [[nodiscard]] bool is_being_dropped(const ValueName& name, int process) const;
  void ask(int asker, const Question& question);
  void answer(int process, const Question& question,
              std::optional<Symbol> symbol);

  // With links.
  [[nodiscard]] static Scenario as_begun(const Scenario& scenario);
  [[nodiscard]] std::size_t bytes_of(const Letter& letter);
  [[nodiscard]] static int most_workers(const Scenario& scenario);
  [[nodiscard]] bool is_linked() const { return plan_.links.has_value(); }
  void begin_dialling();
  void let_in(const AdmitProcess& admit);
  void end_member(int process);
  void kill_member(int process);
  void freeze_process(int process, Duration length);
  void trouble(Member& member, TimePoint until);
  [[nodiscard]] std::optional<Fault> as_of_now(const Fault& fault);
  /// Of the host, if it is there.
  [[nodiscard]] std::optional<int> process_on(int host) const;
  [[nodiscard]] Member& member(int process) {
    return members_.at(static_cast<std::size_t>(process - 1));
  }
  [[nodiscard]] const Member& member(int process) const {
    return members_.at(static_cast<std::size_t>(process - 1));
  }
  /// The listener has given it up, or the coordinator has let it go.
  [[nodiscard]] bool is_out(int process) const {
    return is_linked() && process != kHomeProcess &&
           (member(process).is_out || member(process).is_released);
  }
  [[nodiscard]] int place_of(int actor) const;
  [[nodiscard]] std::optional<int> runner_of(const Happening& happening) const;
  [[nodiscard]] TimePoint frozen_until(int process) const;
  void check_links();
  void check_loss(int process, Side side, const std::optional<net::Loss>& loss);
  [[nodiscard]] TimePoint excused_until(int process) const;
  void count_links();
  /// Everything that is on its way to somebody.
  template <typename Look>
  void each_on_way(const Look& look) const {
    queue_.each([&look](const Happening& happening) {
      const auto* post = std::get_if<Post>(&happening);
      look(post == nullptr ? happening : post->letter->news);
    });
    for (const Member& member : members_) {
      for (std::size_t side = 0; side < kNumSides && !member.is_out; ++side) {
        for (const auto& letter : member.letters[side]) {
          look(letter->news);
        }
      }
    }
  }

  void check_leases();
  void check_grants();
  void check_values();
  void check_room(int process);
  void check_room_with_cuts();
  [[nodiscard]] std::uint64_t bytes_in(int process);
  void check_ended_stores();

  [[nodiscard]] TimePoint now() const {
    return std::max(queue_.now(), link_queue_.now());
  }
  [[nodiscard]] Worker& at(int worker) {
    return workers_.at(static_cast<std::size_t>(worker));
  }
  [[nodiscard]] const DeviceModel& device(int worker) const {
    return scenario_.devices.at(static_cast<std::size_t>(worker));
  }
  [[nodiscard]] int process_of(int worker) const {
    return scenario_.workers.at(static_cast<std::size_t>(worker)).process;
  }
  [[nodiscard]] SymbolStore& store(int process) {
    return stores_.at(static_cast<std::size_t>(process));
  }
  [[nodiscard]] bool has_ended(int process) const {
    return ended_processes_.contains(process);
  }
  /// Sends between two actors; `from` and `to` are workers, or one of these.
  static constexpr int kCoordinator = -1;
  static constexpr int kSupervisor = -2;
  [[nodiscard]] static int actor_of_process(int process) {
    return kSupervisor - 1 - process;
  }
  [[nodiscard]] static int actor_of_link(int process, Side side) {
    constexpr int kFirst = -1'000'000;
    return kFirst - process * kNumSides - static_cast<int>(side);
  }
  [[nodiscard]] int supervisor_of(int worker) const {
    return is_linked() ? actor_of_process(process_of(worker)) : kSupervisor;
  }
  void send(int from, int to, Happening message);
  /// Within a process.
  void hop(int from, int to, Happening message);

  const Scenario& plan_;
  /// As it turns out: with links, processes and workers are added as they come.
  Scenario scenario_;
  const Sabotage& sabotage_;
  Random random_;
  EventQueue<Happening> queue_;
  EventQueue<LinkDue> link_queue_;
  std::vector<SymbolStore> stores_;  ///< by process
  std::set<int> ended_processes_;
  std::vector<Fault> ends_in_cuts_;  ///< ends of processes that wait for cuts
  std::map<std::uint64_t, Fetch> fetches_;
  /// Questions to a process for values that are still to be made, and values of
  /// it that its workers wait for.
  std::map<int, std::vector<Question>> parked_;
  std::map<int, std::set<std::pair<int, ValueName>>> awaited_;
  std::uint64_t next_fetch_ = 0;
  struct KeptCut {
    Cut cut;
    std::uint32_t run = 0;
    std::map<samplers::Slot, Symbol> values;
  };
  /// By sample and number: what outlives the company.
  std::map<std::uint64_t, std::map<std::uint64_t, KeptCut>> cuts_;
  std::uint32_t num_rebuilds_ = 0;
  Ledger ledger_;
  CoordinatorPolicy coordinator_;
  SupervisorPolicy supervisor_;
  std::vector<Worker> workers_;
  std::map<std::pair<int, int>, TimePoint> last_arrival_;  ///< by sender, taker
  std::uint64_t next_pass_ = 0;
  TimePoint ended_{};      ///< the job
  TimePoint last_work_{};  ///< when a pass ended or a worker began
  const IntermediateFetched* intermediate_ = nullptr;  ///< in hand
  /// Of intermediates, by number: the state as it was copied.
  std::map<std::uint64_t, Symbol> copied_;
  std::vector<ValueName> granted_inputs_;  ///< by the event in hand
  // With links.
  std::deque<Member> members_;       ///< [process - 1]
  std::map<int, int> process_on_;    ///< by host: the newest one
  std::map<int, TimePoint> frozen_;  ///< by process: until when
  std::vector<Question> questions_;  ///< by key, on links
  bool was_large_ = false;           ///< the letter before
  Outcome outcome_;
};

}  // namespace troupe::actors::simulator
