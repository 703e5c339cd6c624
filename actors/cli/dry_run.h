#pragma once

#include "actors/cli/job_request.h"
#include "actors/cli/run_outputs.h"
#include "actors/cli/verbs.h"

namespace troupe::actors {

/// Says how a job would be done: method, placement, memory, predicted time.
/// Reads no weights and writes nothing; measures the machine for a moment.
/// Returns the exit code. Errors: as forecast.
[[nodiscard]] int run_dry(Invocation& invocation, const JobRequest& request,
                          const RunOutputs& outputs);

}  // namespace troupe::actors
