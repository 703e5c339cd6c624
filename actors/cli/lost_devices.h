#pragma once

#include <span>

#include "actors/artefacts/summary.h"
#include "actors/cli/job_request.h"
#include "actors/progress.h"

namespace troupe::actors {

/// Devices that fell out of a run: marked in the summary's list, noted there,
/// and said on stderr, each once.
void report_lost(const JobRequest& request, std::span<const LostDevice> lost,
                 RunSummary& summary);

}  // namespace troupe::actors
