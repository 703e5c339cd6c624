#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/coordinator_events.h"
#include "actors/directory.h"
#include "actors/group_loads.h"
#include "actors/link_table.h"
#include "actors/live_workers.h"
#include "actors/plan.h"
#include "actors/process_tally.h"
#include "actors/rehearsal.h"
#include "actors/value_room.h"
#include "kernels/core/flat_table.h"

namespace troupe::actors {

/// Directs one job: which sample begins when, which task runs where, what
/// happens when a worker or a task fails. Knows neither actors nor sockets nor
/// the time; `on` is its only entrance.
///
/// A task is granted as soon as its inputs are there, and ahead of that if the
/// tasks that make them are granted: as many of a sample as its workers may
/// come to within the horizon. A worker joins what it has into passes.
///
///   waiting ──admit──▶ in flight ──method done──▶ decoding ──▶ coming home
///                        │  ▲                                        │
///                  grant │  │ result, or loss of the worker:         ▼
///                        ▼  │ granted anew                         ended
///                      worker
///
/// Values stay where they are made, until another process fetches them: a grant
/// names the holders of its inputs. A slot is freed when every task that reads
/// it has been applied, at all processes that may hold it; frees ride on
/// grants, or go out with the next tick.
///
/// A sample begins only where all that it may hold at once fits, in every
/// process that it uses; the most that it may hold is known beforehand
/// (value_room.h). The room is given back when the sample ends. If a worker is
/// lost, tasks go where workers are left, whether there is room or not: nothing
/// that was begun waits for room. Then no sample begins there until what is in
/// flight fits again. If no process can take a single sample, the job ends with
/// an error.
///
/// A sample is bound to the execution class of the group that takes it. It
/// restarts in another class when its class has lost the last worker. If a
/// value that is still needed lay in a process that ended or in the memory of a
/// GPU that failed, the sample restarts from its last cut, or else from its
/// first call. Near the end a class without samples takes over a sample of a
/// slower class, from the first call.
///
/// Links are weighed by predicted times. A worker is left out if what its link
/// takes makes a call of its group slower than without it: then other workers
/// of the group compute its part. A group gets no sample, and of rows that
/// spread none, if others would have done what waits before its first one came.
/// Both are looked at again as figures change. A worker that is left out stays
/// in the job, and its process gives the values that it holds.
///
/// The job begins when all workers have reported, or with the next tick after
/// the plan's needs are met: one group whose workers have all reported. Whoever
/// comes later takes part from then on.
///
/// An event costs the logarithm of workers and samples. Ticks, progress
/// reports, losses, cancels and workers that come up are linear. When no sample
/// waits to begin any more, so are `rebalance_slowest`, every 10 ms at most,
/// and `slowest_elsewhere`, which notes when to look again. Thread: one.
class CoordinatorPolicy {
 public:
  /// A worker leaves rows of its branch of guidance to the other worker of the
  /// sample if a row takes at least so many times as long on it. Smaller
  /// differences may be noise of the measurement.
  static constexpr double kClearlySlower = 1.2;

  explicit CoordinatorPolicy(CoordinatorOptions options);

  [[nodiscard]] std::vector<CoordinatorCommand> on(
      const CoordinatorEvent& event, TimePoint now);
  /// The same in two halves, for several results in a row: what each leads to
  /// but for grants, and the grants of all. Replaces `commands`.
  void take(const CoordinatorEvent& event, TimePoint now,
            std::vector<CoordinatorCommand>& commands);
  void give_grants(std::vector<CoordinatorCommand>& commands);

  /// A holder of a value of a sample in flight, besides this process. Nothing,
  /// if the run is over.
  [[nodiscard]] std::optional<int> holder_of(const ValueName& name,
                                             int besides) const;

  /// For checks: the run of a sample in flight, and where its values are.
  struct RunView {
    std::uint32_t run = 0;
    const RunDirectory* values = nullptr;
  };
  [[nodiscard]] std::optional<RunView> run_of(std::uint64_t sample_index) const;
  /// For checks: whether the message that frees the value at the process is
  /// still to be sent, or rides on a grant that it holds.
  [[nodiscard]] bool will_free(const ValueName& name, int process) const;

 private:
  /// A sample moves only if the gain is this clear. Its values have to follow,
  /// and a sample that starts again in another class wastes the work done so
  /// far.
  static constexpr double kWorthMoving = 1.5;

  /// The number of a sample's decode among its tasks.
  static constexpr std::uint64_t kDecodeTask =
      std::numeric_limits<std::uint64_t>::max();

  /// Memories that keep room for a sample.
  using RoomKept = FlatTable<ValueMemory, std::monostate>;
  /// The end of a worker while it computed a task.
  struct TaskLoss {
    int worker = 0;
    int process = 0;
    TimePoint when;
    bool was_alone = false;  ///< no other task was in the pass
    bool took_process = false;
    std::string what;  ///< is known of it
  };
  struct Sample {
    std::uint64_t index = 0;
    std::unique_ptr<samplers::Method> method;
    std::size_t group = 0;
    std::uint32_t run = 0;
    RunDirectory values;
    /// That are not answered, by number: which worker has them.
    FlatTable<std::uint64_t, int> grants;
    /// Memories that keep room for the sample, because values of this run may
    /// lie there or may have lain there.
    RoomKept room;
    bool is_decoded = false;
    enum class Result : std::uint8_t { elsewhere, asked_for, here };
    Result result{};                 ///< of this run: where it is, or will be
    std::uint64_t result_fetch = 0;  ///< the newest FetchValues of the result
    TimePoint began;                 ///< this run
    double ticks = 0;  ///< spent on it since a call was last accepted
    bool was_taken_over = false;  ///< has changed its class to end sooner
    struct KeptCut {
      std::uint64_t number = 0;
      int calls = 0;  ///< that are accepted in it
      Cut cut;
    };
    std::optional<KeptCut> last_cut;  ///< the newest that is whole
    std::optional<KeptCut> next_cut;  ///< under way
    /// For observers, and on its way to them: a point of the trajectory, or a
    /// preview.
    struct Intermediate {
      std::uint64_t number = 0;
      int call = 0;
      samplers::Slot state = 0;
      bool is_preview = false;
      /// Of a preview that is a step's; none: the state is an early result.
      std::optional<samplers::Slot> model_output = {};
      /// A preview that comes from another process. Nothing waits for it, and
      /// meanwhile the sample gets no other preview.
      bool may_be_late = false;
    };
    std::vector<Intermediate> intermediates;
    /// Calls of the trajectory whose points were fetched or are being fetched.
    /// A worker's last pass can leave its values behind and no result: then the
    /// sample may be computed before the pass has run again.
    std::set<int> points;
    int next_preview = 0;  ///< the next call to have one
    /// The task of the early result that was shown last. Those before it are
    /// not shown any more.
    std::uint64_t newest_early_result = 0;
    /// Slots that are to be freed when the cut or the intermediate that needs
    /// them is at home.
    std::vector<samplers::Slot> withheld;
    std::vector<samplers::Slot> rescued;  ///< being brought home
    TimePoint cut_began;  ///< or this run, if it was not cut yet
    int calls_when_cut = 0;
    /// Losses of tasks with their workers that count, in all runs, by the
    /// number of the task. Such a task runs alone.
    std::map<std::uint64_t, std::vector<TaskLoss>> losses;
    /// How often it restarted in its class for values that nobody had, since a
    /// process or a GPU was lost last; how many were lost then.
    int unexplained_runs = 0;
    std::size_t num_lost = 0;
  };
  struct Outstanding {
    SampleTask work;
    std::vector<FreedSlots> frees;  ///< that went out with it
  };
  struct Worker {
    bool alive = false;
    bool known = false;   ///< has reported once
    bool gone = false;    ///< never comes back
    bool drains = false;  ///< gets nothing more
    WorkerTraits traits;
    std::uint32_t epoch = 0;
    FlatTable<std::uint64_t, Outstanding> held;  ///< tasks, by grant
    std::optional<std::size_t> outgoing;  ///< its newest grant in the outbox
    /// How many rows of its branch of guidance it is to leave to the other
    /// worker; from 1 on the next one goes there.
    double surplus = 0;
    int heavy = 0;           ///< those of them that take it for long
    TimePoint heavy_since;   ///< since when it has been at the oldest of them
    double row_seconds = 0;  ///< of the rows that are remembered
    double num_rows = 0;
    std::int64_t measured_rows = 0;  ///< all of this job
    /// Of a row, without what only some passes took; 0: not known.
    double usual_row_seconds = 0;
    bool is_left_out = false;         ///< for its link
    bool is_home = false;             ///< of samples
    std::uint64_t ticks = 0;          ///< as last heard
    std::uint64_t settled_ticks = 0;  ///< at the end of its last grant
    TimePoint last_life;
    TimePoint last_beat;  ///< whether it shows life or not
  };
  /// What is known of a class's speed.
  struct ClassTimes {
    Duration busy{};  ///< of its workers, in grants that came back
    std::int64_t num_results = 0;
    Duration of_samples{};  ///< from beginning to end, of those that are done
    std::int64_t num_samples = 0;
    double usual_row_seconds = 0;  ///< of the worker that had the last one
    /// The longest pass of each kind that was done.
    std::map<samplers::Op, Duration> slowest = {};
    /// When the class searches next for a sample to take over: as soon as its
    /// mean time of a sample falls below this, and at the latest at
    /// search_again_at.
    Duration search_again_below{};
    TimePoint search_again_at = TimePoint::min();
  };
  /// Seconds of a group for its next sample, or its next row that spreads.
  struct GroupPace {
    double work = 0;  ///< of computing it; 0: not known
    double link = 0;  ///< of sending its inputs and its result
  };
  /// A task of a pass, and its place among the pass's results.
  struct Answered {
    SampleTask work;
    std::size_t place = 0;
  };

  void handle(const WorkerUp& event);
  void handle(const WorkerDown& event);
  void handle(const WorkerBeat& event);
  void handle(const GrantResult& event);
  // By what became of the tasks; `pass` has those that are still waited for.
  void handle(const GrantResult& event, const TasksDone& done,
              std::vector<Answered> pass);
  void handle(const GrantResult& event, const TasksFailed& failed,
              std::vector<Answered> pass);
  void handle(const GrantResult& event, const InputsGone& gone,
              std::vector<Answered> pass);
  void handle(const GrantResult& event, const TasksReturned& returned,
              std::vector<Answered> pass);
  void handle(const ValuesFetched& event);
  void handle(const IntermediateFetched& event);
  void handle(const CutTaken& event);
  void handle(const TimeTick& event);
  void handle(const StopRequested& event);
  void handle(const JobFault& event);
  void handle(const ProcessDown& event);
  void handle(const LinkMeasured& event);
  void handle(const DrainProcess& event);
  void handle(const ProcessJoined& event);
  void handle(const CancelSample& event);
  void handle(const OutcomeReleased& event);

  /// The sample that waits for a task; null when it has ended or restarted.
  [[nodiscard]] Sample* sample_of(const SampleTask& work);

  void add_worker(const WorkerTraits& traits);
  void note_class(int execution_class);
  [[nodiscard]] samplers::InFlight capacity_of(
      const WorkerTraits& traits) const;

  void admit_samples();
  [[nodiscard]] bool has_credit() const;
  [[nodiscard]] bool has_place(std::size_t group) const;
  void plan_room();
  void set_room();
  [[nodiscard]] std::uint64_t sample_bytes(ValueMemory memory,
                                           bool is_cut) const;
  [[nodiscard]] std::uint64_t budget_of(ValueMemory memory) const;
  [[nodiscard]] bool fits(std::size_t group, const RoomKept& kept) const;
  [[nodiscard]] std::optional<ValueMemory> full_memory_of(
      std::size_t group, const RoomKept& kept) const;
  [[nodiscard]] std::optional<ValueMemory> full_memory_of(
      const WorkerTraits& worker, const RoomKept& kept) const;
  void keep_room(Sample& sample);
  void keep_room(Sample& sample, const WorkerTraits& worker);
  void keep_room(Sample& sample, ValueMemory memory);
  void give_room_back(Sample& sample);
  void note_full(std::size_t group, ValueMemory memory);
  void end_if_no_room();
  [[nodiscard]] static Failure no_room(ValueMemory memory, std::uint64_t budget,
                                       std::uint64_t needed);
  void place(Sample& sample, std::size_t group);
  void share_samples();
  [[nodiscard]] bool rebalance_slowest(int execution_class);
  [[nodiscard]] double row_time(std::size_t group) const;
  [[nodiscard]] double slowness(int worker, int other) const;
  [[nodiscard]] bool is_branch(const samplers::Task& task) const;
  [[nodiscard]] int worker_of_branch(const Sample& sample,
                                     const samplers::Task& task);
  void share_within(int execution_class);
  void take_over_samples();
  void take_over_for(int execution_class);
  [[nodiscard]] Sample* slowest_elsewhere(int execution_class);
  void note_times(int execution_class, Duration grant);
  void issue_ready(Sample& sample);
  void route(Sample& sample, SampleTask work);
  [[nodiscard]] bool reads_unplaced(const SampleTask& work) const;
  void route_alone(std::vector<SampleTask> tasks);
  Grant& grant_for(int worker);
  void send_grants();
  SampleTask take_grant(int worker, std::uint64_t number, bool is_answered);

  [[nodiscard]] bool is_whole(const GrantResult& event, const SampleTask& work,
                              const samplers::TaskResult& result);
  void note_values(const GrantResult& event);
  void find_values(Sample& sample, const samplers::Task& task, Grant& grant);
  void find_value(const Sample& sample, samplers::Slot slot, int process,
                  std::vector<RemoteValue>& sources);
  void redirect_readers(const Sample& sample, const samplers::Task& made);
  [[nodiscard]] static bool is_withheld(const Sample& sample,
                                        samplers::Slot slot);
  void free_slots(Sample& sample, std::span<const samplers::Slot> dead);
  void drop_runs(Sample& sample, std::optional<std::uint32_t> last_run);
  void ask_for_result(Sample& sample);
  void bring_home(Sample& sample);
  void show_step(Sample& sample, const samplers::Task& task);
  void fetch_intermediate(Sample& sample, Sample::Intermediate wanted);
  [[nodiscard]] static bool has_shown(const Sample& sample, int call);
  [[nodiscard]] bool has_shown_all(const Sample& sample) const;
  void cut_if_due(Sample& sample);
  [[nodiscard]] bool restore_cut(Sample& sample);
  [[nodiscard]] bool nobody_stays() const;
  void find_groups();
  void refuse_class_change(const std::vector<std::uint64_t>& samples);
  [[nodiscard]] std::optional<Failure> flaw_of(
      const ProcessJoined& event) const;
  [[nodiscard]] std::optional<Failure> lack_of_room(
      const ProcessJoined& event) const;
  void recall(int worker);
  void recall(int worker, std::uint64_t grant);
  [[nodiscard]] bool is_misplaced(const Sample& sample,
                                  const samplers::Task& task, int holder) const;
  void recall_misplaced(const Sample& sample);
  void recall_for(int newcomer);
  void recall_share(int newcomer);
  void release_drained();
  bool rescue_values(int process);
  void values_rescued(Sample& sample, const ValuesFetched& event);
  void release(int process);
  /// The slots that the sample needs to go on.
  [[nodiscard]] static std::vector<samplers::Slot> needed_slots(
      const Sample& sample);
  /// Whether a needed value has no holder.
  [[nodiscard]] bool lacks_values(const Sample& sample) const;

  [[nodiscard]] std::optional<std::vector<Answered>> take_answered(
      const GrantResult& event);
  [[nodiscard]] static std::vector<SampleTask> tasks_of(
      std::vector<Answered> pass);
  void note_known(int worker);
  void set_alive(int worker, bool is_alive);
  void note_load(int worker);
  void note_loads(std::size_t group);
  void weigh_links();
  void weigh_parts(std::size_t group);
  bool weigh_group(std::size_t group);
  void leave_out_group(std::size_t group,
                       const std::optional<std::string>& why);
  void set_left_out(int worker, bool is_left_out, const std::string& why);
  [[nodiscard]] std::string link_of(int process,
                                    const std::set<int>& others) const;
  [[nodiscard]] double units_of_others(std::size_t group) const;
  [[nodiscard]] std::set<int> best_without(std::size_t group,
                                           const std::set<int>& processes,
                                           const std::set<int>& out);
  void move_delayed(std::size_t group);
  [[nodiscard]] std::optional<std::string> delay_of(std::size_t group) const;
  [[nodiscard]] double time_of_others(std::size_t group, double units) const;
  [[nodiscard]] GroupPace pace_of(std::size_t group) const;
  [[nodiscard]] double usual_row(int worker) const;
  [[nodiscard]] double slowest_row(std::size_t group) const;
  [[nodiscard]] double share_of(samplers::Op op, int segment) const;
  [[nodiscard]] std::uint64_t output_bytes(const samplers::Task& task,
                                           std::size_t place) const;
  [[nodiscard]] std::set<int> processes_of(std::size_t group) const;
  [[nodiscard]] bool may_slow(std::size_t group,
                              const std::set<int>& processes) const;
  [[nodiscard]] bool has_memory(std::size_t group,
                                const std::set<int>& without) const;
  [[nodiscard]] double seconds_per_call(std::size_t group,
                                        const std::set<int>& without);
  [[nodiscard]] int worker_of_part(std::size_t group, int part,
                                   const std::set<int>* without) const;
  void note_row_links();
  void settle_ticks(Worker& worker, std::uint64_t ticks,
                    const std::vector<Answered>& pass);
  void note_pass(const GrantResult& event, const std::vector<Answered>& pass);
  void note_speed(Worker& worker, const GrantResult& event);
  [[nodiscard]] std::vector<WorkerSpeed> measured_speeds() const;
  void apply_results(int worker,
                     const std::vector<samplers::TaskResult>& results,
                     const std::vector<Answered>& pass);
  /// False when the method has dropped it.
  bool apply_result(Sample& sample, const samplers::Task& task,
                    const samplers::TaskResult& result);
  void pass_failed(const GrantResult& event, const TasksFailed& failed,
                   std::vector<SampleTask> pass);
  void lose_workers(const std::vector<int>& lost);
  void reroute(std::vector<SampleTask> tasks);
  void count_losses(int worker, const std::string& what,
                    bool took_process = false);
  [[nodiscard]] bool is_same_host(int process, int other) const;
  [[nodiscard]] static bool ends_processes(const std::vector<TaskLoss>& losses);
  [[nodiscard]] bool is_beside_suspect(int worker);
  [[nodiscard]] int worker_of_suspect(const Sample& sample,
                                      const std::vector<TaskLoss>& losses);
  [[nodiscard]] bool risks_job(const std::vector<TaskLoss>& losses,
                               int worker) const;
  [[nodiscard]] std::optional<std::uint64_t> ready_since(
      const SampleTask& work);
  void park_suspects();
  std::vector<SampleTask> take_tasks_of(int worker);
  void renew_leases_after_a_gap();
  [[nodiscard]] Duration lease_of(int worker) const;
  void device_full(const GrantResult& event, const Failure& failure,
                   std::vector<SampleTask> pass);
  void retire(int worker, const Failure& cause, std::vector<SampleTask> lost);
  void remove_workers(const std::vector<int>& workers, const Failure& cause,
                      std::vector<SampleTask> lost);
  void inputs_lost(const Failure& failure, const std::vector<SampleTask>& pass);
  void restart_in_class(Sample& sample, std::optional<Failure> cause = {});
  void restart(Sample& sample, std::size_t group);
  void cancel_waiting(std::uint64_t index);
  void drop_wanted(std::uint64_t index);
  [[nodiscard]] bool is_coming_home(const Sample& sample) const;
  void finish_method(Sample& sample);
  void end_sample(std::uint64_t index, SampleStatus status,
                  std::optional<Failure> failure);
  void end_if_hopeless();
  void end_job(bool stopped, std::optional<Failure> failure);
  [[nodiscard]] JobProgress progress() const;
  void report_progress();
  void note_waiting();
  [[nodiscard]] std::map<std::uint64_t, double> ticks_by_sample() const;

  [[nodiscard]] int worker_of(const Sample& sample, const samplers::Task& task);
  [[nodiscard]] bool spreads(const samplers::Task& task) const;
  [[nodiscard]] int planned_worker(const Sample& sample, int part) const;
  [[nodiscard]] int worker_beside(const Sample& sample,
                                  const samplers::Task& task);
  [[nodiscard]] int most_open(const Sample& sample) const;
  [[nodiscard]] Duration round_trip_of(const Sample& sample) const;
  [[nodiscard]] int num_workers() const {
    return static_cast<int>(workers_.size());
  }
  [[nodiscard]] Worker& at(int worker) {
    return workers_[static_cast<std::size_t>(worker)];
  }
  [[nodiscard]] ClassTimes& times_of(int execution_class) {
    return times_[static_cast<std::size_t>(execution_class)];
  }
  [[nodiscard]] int class_of(const Sample& sample) const {
    return groups_.class_of(sample.group);
  }
  [[nodiscard]] Duration time_left(const Sample& sample) const;

  CoordinatorOptions options_;  ///< its samples: those that are still wanted
  int calls_per_sample_ = 0;
  int tasks_per_call_ = 0;          ///< at most
  int most_ahead_ = 0;              ///< tasks that a sample may have open
  samplers::LiveValues most_live_;  ///< of a sample, with so many
  ValueRoom room_;
  /// Groups that wait for room in a memory.
  FlatTable<ValueMemory, std::vector<std::size_t>> full_groups_;
  /// Only what lies on the host of the coordinator's process is lost with the
  /// job alone.
  bool can_lose_values_ = false;
  GroupLoads groups_;
  std::vector<ClassTimes> times_;  ///< by class
  std::vector<Worker> workers_;
  ProcessTally tally_;
  LiveWorkers live_;
  LinkTable links_;
  std::map<int, double> row_links_;  ///< by process: see LiveWorkers::Load
  TimePoint weigh_at_ = TimePoint::min();  ///< when to weigh links again
  std::optional<Rehearsal> rehearsal_;     ///< of a method with parts, if used
  /// By group, of methods with parts: seconds of a call as it was last
  /// predicted.
  std::map<std::size_t, double> call_seconds_;
  std::size_t num_unknown_ = 0;  ///< workers that have not reported yet
  bool has_begun_ = false;       ///< to admit samples
  std::size_t next_sample_ = 0;
  std::map<std::uint64_t, Sample> samples_;  ///< in flight, by global index
  /// When to compare the speeds of groups again.
  TimePoint compare_at_ = TimePoint::min();
  std::set<std::uint64_t> unwritten_;  ///< done, and not yet released
  /// Tasks without a worker: no worker of the class is alive, or an input was
  /// gone.
  std::vector<SampleTask> unplaced_;
  std::vector<Grant> outbox_;  ///< to be sent
  /// Numbers of grants, and of results between them.
  std::uint64_t next_grant_ = 1;
  std::uint64_t next_cut_ = 1;
  std::uint64_t next_intermediate_ = 1;
  FlatTable<int, std::vector<FreedSlots>> frees_;  ///< to be sent, by process
  std::vector<Redirect> redirects_;                ///< to be sent
  std::vector<Recall> recalls_;                    ///< to be sent
  std::set<int> draining_;                         ///< processes
  std::set<int> lost_processes_;
  /// Samples to be parked, and the task of each that was lost too often.
  std::map<std::uint64_t, std::uint64_t> parked_;
  std::vector<std::pair<int, Device>> lost_memories_;  ///< process, GPU

  JobProgress ended_totals_;  ///< of samples that have ended
  std::optional<Failure> first_failure_;
  std::int64_t recoveries_ = 0;
  std::vector<LostDevice> lost_;
  bool is_deserted_ = false;  ///< samples wait for a process to join
  bool waits_ = false;        ///< see JobProgress::waits_for_workers
  bool ended_ = false;
  TimePoint now_;
  std::optional<TimePoint> last_tick_;
  TimePoint last_report_;
  std::vector<CoordinatorCommand> commands_;
};

}  // namespace troupe::actors
