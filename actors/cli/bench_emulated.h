#pragma once

#include "actors/cli/job_runner.h"
#include "actors/cli/verbs.h"

namespace troupe::actors {

/// `bench --emulate`: runs the request and a sequential baseline on modelled
/// devices, and prints both, marked as emulated. Returns the exit code.
/// Errors: what the run failed with; those of StopFlag::check.
[[nodiscard]] int bench_emulated(Invocation& invocation,
                                 const JobRequest& request,
                                 const JobRunner& runner);

}  // namespace troupe::actors
