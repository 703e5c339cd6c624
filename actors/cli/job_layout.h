#pragma once

#include "actors/cli/job_devices.h"
#include "actors/cli/job_request.h"
#include "config/config.h"

namespace troupe::actors {

/// Decides for the request's devices how many workers each has, how many images
/// at once, and what memory that takes; leaves out GPUs without room where
/// --device is "auto" (the CPU takes over from the last). Errors: those of
/// config::make_plan; of a GPU that does not answer.
void lay_out(const config::Config& config, const Gpus& gpus,
             JobRequest& request);

/// What is free beside required_bytes is for values, and the room for one
/// sample that is in them. Jobs with GPUs have no limit: their values lie
/// there.
void set_value_budget(JobRequest& request);

/// Errors: Errc::out_of_memory, Errc::device_full, with the numbers, where the
/// host or a GPU has less than the job needs.
void check_memory(const JobRequest& request);

}  // namespace troupe::actors
