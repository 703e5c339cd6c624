#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/cli/job_runner.h"
#include "actors/cli/verbs.h"

namespace troupe::actors {

/// `bench --emulate`: runs a sequential baseline and the requests, of one job
/// but for the method, on modelled devices, and prints all, marked as emulated.
/// Returns the exit code.
/// Errors: what the run failed with; those of StopFlag::check.
[[nodiscard]] int bench_emulated(Invocation& invocation,
                                 std::span<const JobRequest> requests,
                                 const std::vector<std::string>& notes,
                                 const JobRunner& runner);

}  // namespace troupe::actors
