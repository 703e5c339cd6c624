#pragma once

#include "actors/cli/job_request.h"
#include "actors/cli/required_class.h"
#include "actors/cli/verbs.h"

namespace troupe::actors {

/// --print-job: reads the weights for their hash and prints the record as JSON:
/// indented for people; with --json on one line, behind the keys of every verb.
/// Numbers read back to the same bits; those that are not finite are texts.
/// Errors: those of reading the weights; Errc::another_class.
[[nodiscard]] int print_job(Invocation& invocation, const JobRequest& request,
                            const RequiredClass& required);

}  // namespace troupe::actors
