#pragma once

#include "actors/cli/job_request.h"
#include "actors/cli/required_class.h"
#include "actors/cli/run_outputs.h"
#include "actors/cli/verbs.h"

// What `troupe sample` prints instead of computing. Both return the exit code.

namespace troupe::actors {

/// Says how a job would be done: method, placement, memory, predicted time.
/// Reads no weights and writes nothing; measures the machine for a moment.
/// Errors: as forecast.
[[nodiscard]] int run_dry(Invocation& invocation, const JobRequest& request,
                          const RunOutputs& outputs);

/// --print-job: reads the weights for their hash and prints the record as JSON:
/// indented for people; with --json on one line, behind the keys of every verb.
/// Numbers read back to the same bits; numbers that are not finite are written
/// as texts.
/// Errors: those of reading the weights; Errc::another_class.
[[nodiscard]] int print_job(Invocation& invocation, const JobRequest& request,
                            const RequiredClass& required);

}  // namespace troupe::actors
