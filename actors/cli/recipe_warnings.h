#pragma once

#include "actors/cli/job_request.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// Warns of weights, latents and an execution class that are not those of the
/// image that --from names.
void warn_of_others(const config::Recipe& recipe, const JobRequest& request,
                    const JobRunner& runner);

/// Says, and keeps in `notes`, that images which are there were made by none of
/// `classes`, this run's execution classes; nothing if they all were.
void say_other_classes(const RunOutputs& outputs,
                       const std::vector<std::string>& classes,
                       std::vector<std::string>& notes);

}  // namespace troupe::actors
