#pragma once

#include <cstdint>
#include <optional>

#include "actors/artefacts/summary.h"
#include "actors/cli/job_request.h"
#include "actors/cli/signals.h"

namespace troupe::actors {

/// Network calls of one sample.
struct MeasuredCalls {
  double rounds = 0;  ///< one after another
  double all = 0;
};

/// What decides how much a job computes and how well it spreads.
struct JobShape {
  std::uint64_t samples = 1;
  int calls = 1;  ///< model calls per sample
  int workers = 1;
  int blocks = 1;  ///< of the network: parts take whole ones
  samplers::MethodOptions method;
  /// What one sample took; unset: as the method's definition says, at most.
  std::optional<MeasuredCalls> measured = {};
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
/// cost nothing. Picard: what was measured, or every round a whole window, one
/// point accepted. Pure.
[[nodiscard]] Workload workload_of(const JobShape& shape);

/// What a run of `samples` images takes, decoded if `decodes`: everything but
/// memory. Errors: those of StopFlag::check; thread_refusal.
[[nodiscard]] PlanSummary forecast(const JobRequest& request,
                                   std::uint64_t samples, bool decodes,
                                   StopFlag& stop);

}  // namespace troupe::actors
