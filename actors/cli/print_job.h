#pragma once

#include <string>

#include "actors/cli/job_request.h"
#include "actors/cli/verbs.h"
#include "actors/job_record.h"

namespace troupe::actors {

/// A record as JSON, for people. Numbers are written so that they read back to
/// the same bits; those that are not finite are texts. indent < 0: one line.
[[nodiscard]] std::string to_json(const JobRecord& job, int indent = 2);

/// --print-job: reads the weights for their hash and prints the record, with
/// --json on one line. Errors: those of reading the weights.
[[nodiscard]] int print_job(Invocation& invocation, const JobRequest& request);

}  // namespace troupe::actors
