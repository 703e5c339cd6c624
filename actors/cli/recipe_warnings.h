#pragma once

#include "actors/cli/job_request.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// Warns of weights, latents and an execution class that are not those of the
/// image that --from names.
void warn_of_others(const config::Recipe& recipe, const JobRequest& request,
                    const JobRunner& runner);

/// Prints and adds to `notes` how many of `images`, which are there, were made
/// by none of `classes`, this run's execution classes. Nothing if there are
/// none.
void say_other_classes(std::span<const EarlierImage> images,
                       const std::vector<std::string>& classes,
                       std::vector<std::string>& notes);

}  // namespace troupe::actors
