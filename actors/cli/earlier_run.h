#pragma once

#include <string>

#include "actors/cli/job_request.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// What an earlier run of the same command left, for --exists skip. A sample
/// is skipped when all that is asked of it is there: its image, and its rows
/// in the files of --save, which are found by the hash of the final latents
/// that the image's recipe names. Fills `outputs.skipped` and the earlier rows;
/// adds what the user should know to `request.notes`.
///
/// Errors: Errc::invalid_argument for an image whose recipe is not that of
/// this job (weights excepted, see check_weights) or that carries none, and
/// for a file of --save that holds rows of other samples: two jobs are never
/// mixed in one folder, and no row is lost. Errc::corrupt_file, Errc::io, those
/// of StopFlag::check.
void find_earlier(const config::Config& config, JobRequest& request,
                  RunOutputs& outputs, const StopFlag& stop);

/// Errors: Errc::invalid_argument if an image that is skipped was made with
/// other weights than these.
void check_weights(const RunOutputs& outputs, const std::string& weights_xxh3);

}  // namespace troupe::actors
