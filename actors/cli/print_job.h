#pragma once

#include <string>

#include "actors/cli/job_request.h"
#include "actors/cli/required_class.h"
#include "actors/cli/verbs.h"
#include "actors/job_record.h"

namespace troupe::actors {

/// A record as indented JSON, for people. Numbers are written so that they read
/// back to the same bits; those that are not finite are texts.
[[nodiscard]] std::string to_json(const JobRecord& job);

/// --print-job: reads the weights for their hash and prints the record, with
/// --json on one line, behind the keys of every verb. Errors: those of reading
/// the weights; Errc::another_class.
[[nodiscard]] int print_job(Invocation& invocation, const JobRequest& request,
                            const RequiredClass& required);

}  // namespace troupe::actors
