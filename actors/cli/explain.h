#pragma once

#include "actors/cli/job_request.h"

namespace troupe::actors {

/// What was chosen for a job and why, as lines of the log at level info
/// (--verbose): sampler, method, arithmetic, memory. `from_image`: whether the
/// schedule is that of a recipe (--from). Thread: any.
void explain(const config::Config& config, const JobRequest& request,
             bool from_image);

}  // namespace troupe::actors
