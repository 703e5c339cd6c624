#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/grant.h"
#include "actors/process_tally.h"
#include "kernels/core/device.h"
#include "kernels/core/tensor.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

enum class SampleStatus : std::uint8_t {
  unfinished,
  done,
  failed,
  cancelled  ///< somebody did not want it any more
};

struct SampleReport {
  std::uint64_t sample_index = 0;
  SampleStatus status = SampleStatus::unfinished;
  samplers::Progress progress = {};
  std::optional<Failure> failure = {};
  /// The class of the workers that computed it; see WorkerTraits.
  int execution_class = 0;
};

/// A device that fell out of a job, and why.
struct LostDevice {
  Device device;
  Failure cause;
  int process = 0;  ///< whose device it was; 0: the coordinator's
};

struct JobProgress {
  std::uint64_t samples_total = 0;  ///< without cancelled ones
  std::uint64_t samples_done = 0;
  std::uint64_t samples_failed = 0;
  std::uint64_t samples_cancelled = 0;
  std::int64_t calls_done = 0;  ///< over all samples, of calls_total
  /// Of cancelled samples only the calls that were done before.
  std::int64_t calls_total = 0;
  /// What the blocks that ran since stand for, in calls; can be a fraction.
  double calls_under_way = 0;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;      ///< of the sample that needed most
  std::int64_t reused = 0;      ///< of nfe: see JobResult
  std::int64_t recoveries = 0;  ///< see JobResult
  /// No worker is there: none has come yet, or all have gone.
  bool waits_for_workers = false;
  std::vector<Process> processes;  ///< that ever worked, by number

  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

/// A sample that has ended.
struct SampleOutcome {
  SampleReport report;
  Tensor latents;  ///< [C, …] f32; empty unless done
  Tensor pixels;   ///< [3, H', W'] bytes (pixel_bytes); empty unless decoded
  /// Whoever still has to write the sample keeps a copy. The sample uses up
  /// writer's credit (see CoordinatorOptions) until the last copy is destroyed.
  /// A copy can outlive the job. Thread: any.
  std::shared_ptr<void> receipt = {};
};

/// A look at a sample on its way.
struct Preview {
  std::uint64_t sample_index = 0;
  /// Model call whose output it comes from; of an early result of the method,
  /// the number of calls.
  int call = 0;
  Tensor latents;  ///< predicted clean latents, [C, …] f32 on the host
};

/// A sample's latents after `calls` model calls; 0: the initial ones. If a
/// method computes a point again, it is sent again, and the last one counts.
struct TrajectoryPoint {
  std::uint64_t sample_index = 0;
  int calls = 0;
  Tensor latents;  ///< [C, …] f32 on the host
};

/// Port: who watches a job. Calls come one at a time, in the order of events. A
/// slow observer delays other observers. It delays the job only when the credit
/// for finished samples is used up.
/// Errors: a throwing observer ends the job with its error.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_progress(const JobProgress& /*progress*/) {}
  virtual void on_sample(const SampleOutcome& /*outcome*/) {}
  virtual void on_preview(const Preview& /*preview*/) {}
  /// Only when the job collects trajectories.
  virtual void on_point(const TrajectoryPoint& /*point*/) {}
  /// Only when the job collects a trace.
  virtual void on_pass(const TracePass& /*pass*/) {}
};

}  // namespace troupe::actors
