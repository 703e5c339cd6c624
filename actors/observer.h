#pragma once

#include "actors/grant.h"
#include "actors/progress.h"
#include "kernels/core/tensor.h"

namespace troupe::actors {

/// A sample that has ended.
struct SampleOutcome {
  SampleReport report;
  Tensor latents;  ///< [C, …] f32; empty unless done
  Tensor pixels;   ///< [3, H', W'] f32 in [−1, 1]; empty unless decoded
};

/// Port: who watches a job. Calls come one at a time, in the order of events;
/// a slow observer delays other observers, never the job.
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
  virtual void on_span(const TraceSpan& /*span*/) {}
};

}  // namespace troupe::actors
