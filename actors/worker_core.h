#pragma once

#include "actors/grant.h"
#include "actors/sample_store.h"
#include "kernels/core/clock.h"
#include "kernels/core/context.h"
#include "samplers/parallel/task_runner.h"

namespace troupe::actors {

/// What all workers of a node share: weights (behind the runner's evaluator),
/// schedule and samples. Outlives every worker.
struct JobContext {
  const samplers::Schedule& schedule;
  samplers::TaskRunner& runner;
  SampleStore& samples;
  const Clock& clock;
  bool previews = false;    ///< whether results carry previews
  bool trajectory = false;  ///< whether results carry latents after each call
};

/// Does the work of a grant on the calling thread and waits for its device.
/// Never throws: what goes wrong stands in the result; where a GPU is at fault
/// its place is that GPU.
/// Thread: any, one ctx per thread.
[[nodiscard]] GrantResult execute(const Grant& grant, ExecContext& ctx,
                                  const JobContext& job) noexcept;

}  // namespace troupe::actors
