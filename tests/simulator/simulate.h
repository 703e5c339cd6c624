#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator_policy.h"
#include "tests/simulator/scenario.h"

namespace troupe::actors::simulator {

/// A mistake that is put into the coordinator, to see whether the simulator
/// finds it. The mistake changes the commands of the policy, or its options at
/// the start.
struct Sabotage {
  std::function<void(std::vector<CoordinatorCommand>&)> of_commands;
  std::function<void(CoordinatorOptions&)> of_options = {};
  LinkSabotage of_links = {};
  /// The coordinator does not hear that a process is lost.
  bool hides_losses = false;
  /// A process goes on computing when its link is lost.
  bool outlives_links = false;
};

/// Faults of the links of a job.
struct LinkHazards {
  int connections_lost = 0;
  int lost_in_record = 0;    ///< of them, between two pieces of a record
  int short_partitions = 0;  ///< shorter than a lease
  int long_partitions = 0;
  int short_freezes = 0;  ///< of processes
  int long_freezes = 0;
  int home_freezes = 0;    ///< of the coordinator's process
  int kills = 0;           ///< of processes
  int duplicates = 0;      ///< pieces of records that came again
  int joins = 0;           ///< when samples were in flight
  int losses = 0;          ///< links that the coordinator's process gave up
  int waits_for_room = 0;  ///< records without credit
  int relayed_values = 0;  ///< questions that the coordinator's passed on
};

/// What came of one scenario.
struct Outcome {
  /// What may never happen and did; empty: nothing.
  std::optional<std::string> error;
  /// The job was given up for a reason that it may be given up for.
  bool gave_up = false;
  /// Samples of which a task was lost too often with its worker.
  int failed_samples = 0;
  int cancelled_samples = 0;
  Duration took{};  ///< virtual time
  std::uint64_t num_events = 0;
  std::uint64_t num_frames = 0;  ///< and timers of links
  std::uint64_t num_tasks = 0;   ///< that workers ended
  /// Faults that struck a worker that was up, or a sample that had not ended,
  /// by kind.
  std::array<int, kNumFaultKinds> struck{};
  int fences = 0;        ///< of workers past their lease
  int late_results = 0;  ///< that nobody waited for any more
  int kept_recalls = 0;  ///< of tasks that their worker had begun
  int cuts = 0;
  int lost_cuts = 0;  ///< of which a holder was lost before it had answered
  int new_runs = 0;   ///< of samples that lost something, or moved
  int releases = 0;   ///< of processes that wanted to leave
  std::uint64_t tasks_of_joined = 0;  ///< of num_tasks
  int rebuilds = 0;                   ///< of the whole company
  int restores = 0;                   ///< samples that went back to a cut
  std::uint64_t intermediates = 0;    ///< that observers got
  int empty_pulls = 0;  ///< questions for a value that its holder had not
  LinkHazards links;
};

/// Runs the production policies of a company through the scenario in virtual
/// time, on symbolic values. Follows from the scenario alone. Errors: none; an
/// exception of a policy is an error of the outcome. Thread: one.
[[nodiscard]] Outcome simulate(const Scenario& scenario,
                               const Sabotage& sabotage = {});

}  // namespace troupe::actors::simulator
