#pragma once

#include "actors/grant.h"
#include "actors/job_record.h"
#include "actors/session.h"

// What processes of a job say to each other, held against the job: numbers of a
// peer that lies must not lead beyond what the job has. Thread: any.

namespace troupe::actors {

/// A result that came from another process: its pass took a time that a clock
/// can count.
/// Errors: Errc::corrupt_file.
void check_result(const GrantResult& result);

/// A grant that came from the coordinator's process: its tasks are of samples,
/// calls and segments of the job, and have the slots that their kind needs.
/// Errors: Errc::corrupt_file.
void check_grant(const Grant& grant, const JobRecord& job);

}  // namespace troupe::actors
