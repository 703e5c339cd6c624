#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "actors/coordinator_policy.h"
#include "tests/simulator/scenario.h"
#include "tests/simulator/symbols.h"

namespace troupe::actors::simulator {

/// Keeps account of what the coordinator hears and asks for, and finds what may
/// never happen. A check costs what its command costs. Only the first error is
/// kept.
class Ledger {
 public:
  explicit Ledger(const Scenario& scenario);

  // What the coordinator hears.
  void heard(const WorkerUp& up, TimePoint now);
  void heard(const WorkerDown& down);
  void heard(const WorkerBeat& beat, TimePoint now);
  void heard(const GrantResult& result);
  void heard(const ProcessDown& down, TimePoint now);
  void heard(const DrainProcess& drain);
  void heard(const ProcessJoined& joined);
  void heard(const CancelSample& cancel);
  /// All workers and grants are gone, and another coordinator begins.
  void heard_of_rebuild();

  // What it asks for.
  void asked(const Grant& grant, TimePoint now);
  void asked(const Redirect& redirect);
  void asked(const DropRuns& drop);
  /// `execution_class`: of the cut.
  void asked(const RestoreCut& restore, int execution_class);
  /// `home`: the values of that run in the coordinator's process, if the sample
  /// is done.
  void asked(const EndSample& end, const std::shared_ptr<SymbolTable>& home);
  /// `state`: of what observers get.
  void asked(const ShowIntermediate& show, Symbol state);
  void asked(const FenceWorker& fence, TimePoint now);
  void asked(const AdmitProcess& admit);
  void asked(const FetchValues& fetch);
  void asked(const ReleaseProcess& release);
  void asked(const JobProgress& progress);
  void asked(const EndJob& end);

  /// At the end of an event.
  void check_answers();

  /// Counts `what` as an error unless `good`.
  void expect(bool good, std::string_view what);
  void expect(bool good, std::string_view what, const SampleTask& work);

  /// The incarnation that the coordinator heard of last.
  [[nodiscard]] std::uint32_t epoch_of(int worker) const {
    return workers_.at(static_cast<std::size_t>(worker)).epoch;
  }
  /// The grants that the worker's incarnation holds, as far as the coordinator
  /// knows.
  [[nodiscard]] const std::set<std::uint64_t>& grants_of(int worker) const {
    return workers_.at(static_cast<std::size_t>(worker)).grants;
  }
  /// When the oldest of them was made; there must be one.
  [[nodiscard]] TimePoint held_since(int worker) const {
    return grants_.at(*grants_of(worker).begin()).when;
  }
  /// Whether the coordinator waits for this grant.
  [[nodiscard]] bool is_held(std::uint64_t grant) const {
    return grants_.contains(grant);
  }
  /// Of a sample in flight.
  [[nodiscard]] std::optional<std::uint32_t> run_of(
      std::uint64_t sample_index) const;
  /// Whether a task that makes the value is granted.
  [[nodiscard]] bool is_being_made(const ValueName& name) const;
  /// Whether a task that reads the value is granted to the worker.
  [[nodiscard]] bool is_read(const ValueName& name, int worker) const;
  /// The tasks of a worker's pass.
  void begun(const Grant& pass);
  [[nodiscard]] const std::optional<std::string>& first_error() const {
    return first_error_;
  }
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
  [[nodiscard]] bool has_ended(std::uint64_t sample_index) const {
    return ended_.contains(sample_index);
  }
  /// The job was given up for an allowed reason: no worker is left, or its
  /// first samples failed.
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_; }
  /// Samples that failed for an allowed reason: a task ended too many workers.
  [[nodiscard]] int num_failed() const noexcept { return num_failed_; }
  [[nodiscard]] int num_cancelled() const noexcept { return num_cancelled_; }
  /// The sample is computed, and its result is being fetched.
  [[nodiscard]] bool is_coming_home(std::uint64_t sample_index) const;
  /// The most bytes of values in the process: the budget of the process, and
  /// more for each sample that came after a loss; 0: no limit.
  [[nodiscard]] std::uint64_t most_bytes(int process) const;
  /// No lease of the worker is longer, by the passes that were heard of.
  [[nodiscard]] Duration longest_lease(int worker) const;

 private:
  struct Incarnation {
    std::uint32_t epoch = 0;
    bool is_alive = false;
    bool is_gone = false;
    bool drains = false;
    TimePoint last_beat;
    std::set<std::uint64_t> grants;
  };
  /// A loss that counts against the tasks of a worker. Whoever is silent,
  /// leaves or is fenced without beats ends without one.
  struct Loss {
    int process = 0;
    /// When the process ended, if the worker ended with it.
    std::optional<TimePoint> process_ended = {};
  };
  /// Losses of a task that was granted to run alone: of its worker, while the
  /// worker had the task. Ends of processes of one host within two seconds
  /// count once.
  struct Losses {
    int count = 0;
    bool ended_process = false;
    Loss last;
  };
  struct Held {
    int worker = 0;
    TimePoint when;
    SampleTask task;
  };
  struct InFlight {
    std::uint32_t run = 0;
    int execution_class = -1;  ///< of this run's workers; -1: none had a task
    bool is_asked_for = false;
  };
  /// Sample, run, task and its version.
  using TaskName =
      std::tuple<std::uint64_t, std::uint32_t, std::uint64_t, std::uint32_t>;

  [[nodiscard]] static TaskName name_of(const SampleTask& work);
  void lose(Incarnation& incarnation, const std::optional<Loss>& loss);
  void count(Losses& losses, const Loss& loss) const;
  [[nodiscard]] bool may_be_parked(std::uint64_t sample_index) const;
  [[nodiscard]] bool only_home_is_left() const;
  void forget(std::uint64_t grant);
  void forget_grants(std::uint64_t sample_index,
                     std::optional<std::uint32_t> last_run = {});
  void check_task(const SampleTask& work, int execution_class);
  void note_use(std::uint64_t sample_index, int process);

  const Scenario& scenario_;
  std::vector<Incarnation> workers_;           ///< that are in the company
  std::optional<int> joiner_;                  ///< a process that asks to join
  std::map<std::uint64_t, Held> grants_;       ///< at live workers
  std::unordered_set<std::uint64_t> numbers_;  ///< of all grants
  std::set<TaskName> tasks_;                   ///< of these grants
  /// By sample and task, in all runs.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Losses> losses_;
  std::map<int, std::uint64_t> machines_;  ///< of processes that say it
  std::map<std::uint64_t, InFlight> samples_;
  /// By sample and call: the points that observers have.
  std::map<std::uint64_t, std::map<int, Symbol>> points_;
  std::set<std::uint64_t> ended_;
  std::set<std::uint64_t> unwanted_;  ///< somebody has cancelled them
  std::uint64_t reported_ = 0;
  std::map<int, Duration> slowest_;  ///< pass, by execution class
  bool has_losses_ = false;          ///< of workers; or some want to leave
  std::set<std::uint64_t> begun_;
  /// By sample: the processes of its tasks, and whether it came after a loss.
  std::map<std::uint64_t, std::map<int, bool>> uses_;
  int num_failed_ = 0;
  int num_cancelled_ = 0;
  bool has_ended_ = false;
  bool gave_up_ = false;
  std::optional<std::string> first_error_;
};

}  // namespace troupe::actors::simulator
