#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/job_parts.h"
#include "actors/observer.h"
#include "actors/supervisor_policy.h"
#include "actors/worker_traits.h"
#include "kernels/core/executor.h"

namespace troupe::actors {

/// A run of a job in this process: the samples [begin, end) by global index,
/// the workers and the observers.
struct JobSpec {
  JobParts parts = {};

  std::uint64_t begin = 0;
  std::uint64_t end = 1;

  /// They outlive the run.
  std::vector<Observer*> observers = {};
  std::stop_token stop = {};             ///< asks the job to stop; any thread
  std::vector<std::uint64_t> skip = {};  ///< indices that are not wanted
  bool decode = true;
  std::uint64_t outcome_bytes = 0;  ///< see CoordinatorOptions
  /// See CoordinatorOptions; of each process.
  ValueSizes value_sizes = {};
  std::vector<SegmentFigures> segments = {};  ///< see CoordinatorOptions
  std::uint64_t value_budget = 0;
  ProcessMeans means = {};  ///< of this process
  int preview_every = 0;    ///< model calls between previews; 0: none
  bool trajectory = false;  ///< whether observers get the latents of all calls
  bool trace = false;       ///< whether observers get passes

  /// The company. A class of execution is part of what an evaluator promises:
  /// workers with equal numbers must give equal bytes.
  std::vector<WorkerTraits> workers = {{}};
  bool waits_for_processes = false;  ///< see CoordinatorOptions
  int num_classes = 1;               ///< the same
  config::ClassChange on_class_change = config::ClassChange::begin_anew;
  /// A block of a pass takes seconds at most. Before the first pass a worker
  /// can prepare weights for minutes.
  LeaseOptions lease = {.least = std::chrono::seconds(10),
                        .unmeasured = std::chrono::minutes(10)};
  int max_losses = 3;       ///< see CoordinatorOptions
  bool keep_going = false;  ///< the same
  CutOptions cuts = {};     ///< the same
  RestartOptions restart = {};
  /// The compute thread of a worker; empty: a ThreadExecutor.
  std::function<std::unique_ptr<Executor>(int worker)> make_executor = {};
};

/// What a job did.
struct JobResult {
  std::vector<SampleReport> samples;  ///< all that were wanted, by index
  bool stopped = false;
  /// Why the job could not go on; samples that had ended are in `samples`.
  std::optional<Failure> failure;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;  ///< of the sample that needed most
  std::int64_t reused = 0;  ///< of nfe: calls that left out blocks (+cache)
  /// Workers that were lost, and GPUs that ran out of memory: what was in their
  /// hands was done again.
  std::int64_t recoveries = 0;
  std::vector<LostDevice> lost;  ///< in the order of their loss
  double compute_seconds = 0;    ///< of all workers
  /// Who did what, by number.
  std::vector<Process> processes;
  std::vector<WorkerSpeed> speeds;  ///< see EndJob
  double wall_seconds = 0;

  [[nodiscard]] std::uint64_t count(SampleStatus status) const;
};

/// The options of a coordinator of the job. Errors: Errc::invalid_argument for
/// an empty range.
[[nodiscard]] CoordinatorOptions coordinator_options(const JobSpec& spec);

/// Runs a job with a company of actors in this process, and returns when it is
/// over or, after a stop, as soon as every worker has left its block.
///
/// The bytes of a sample depend on its recipe, its index and its execution
/// class alone: not on workers, threads, rows, range or neighbours. Picard and
/// stale pipelines are approximate by their own options, and as independent of
/// the rest. A sample is computed from beginning to end by one class
/// (SampleReport::execution_class). A GPU that fails, or has no room for a
/// single row, leaves the job; the rest goes on with what it had.
/// Errors: Errc::invalid_argument for what cannot be: no workers, an empty
///         range, options the method refuses, more threads than the system
///         starts. Failures of the run itself are in the result.
/// Thread: any; observers are called from another thread until it returns.
[[nodiscard]] JobResult run_job(const JobSpec& spec);

}  // namespace troupe::actors
