#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/artefacts/summary.h"
#include "actors/cli/job_request.h"
#include "actors/cli/signals.h"

namespace troupe::actors {

/// What decides how much a job computes and how well it spreads.
struct JobShape {
  std::uint64_t samples = 1;
  int calls = 1;  ///< model calls per sample
  int workers = 1;
  int blocks = 1;  ///< of the network: segments take whole ones
  samplers::MethodOptions method;
};

/// A job's size, counted in network evaluations (both guidance branches are
/// one).
struct Workload {
  double evaluations = 0;
  double path =
      0;  ///< time until the last sample, in evaluations by one worker
  bool is_bound = false;  ///< the method may end earlier (picard)
};

/// Counts what the methods' definitions say, as if steps, messages and sweeps
/// cost nothing. Stale pipelines: the marked graph's firings and steady period;
/// picard: every round a whole window, one point accepted. Pure.
[[nodiscard]] Workload workload_of(const JobShape& shape);

/// How fast this machine runs the model's blocks.
struct Pace {
  double row_seconds = 0;  ///< a whole forward pass of one row, by one worker
  double flops_per_second = 0;  ///< of one worker
  std::string how;              ///< what was measured, for people
};

/// Of the workers of one of the request's devices. Times forward passes through
/// as many blocks of the model's shape (random weights) as make 25 M
/// parameters, at least one, with all workers that have cores at once (on a GPU
/// with one, and as many images as it takes at once), and scales by arithmetic
/// to the whole network. Takes a few seconds at most for networks of billions
/// of parameters. Empty when there is too little memory to do so. Errors: those
/// of StopFlag::check; thread_refusal.
[[nodiscard]] std::optional<Pace> measure_pace(const JobRequest& request,
                                               const JobDevice& device,
                                               StopFlag& stop);

/// What a run of `samples` images takes, decoded if `decodes`: everything but
/// memory. Errors: as measure_pace.
[[nodiscard]] PlanSummary forecast(const JobRequest& request,
                                   std::uint64_t samples, bool decodes,
                                   StopFlag& stop);

}  // namespace troupe::actors
