#pragma once

#include <span>
#include <string>

#include "actors/artefacts/summary.h"
#include "actors/cli/job_request.h"
#include "actors/cli/run_outputs.h"
#include "actors/observer.h"
#include "actors/runtime.h"

namespace troupe::actors {

/// The line that `troupe sample` ends with: what was made, how, where it is and
/// the hash of the latents. To stdout, or to stderr where the image went to
/// stdout. `here` is what describe_company says of this process. Of a run that
/// only measures, it says the process's peak memory, too.
void print_result(const RunSummary& summary, const RunOutputs& outputs,
                  const std::string& here, bool only_measures);

/// Notes why the summary has no hash over all latents, if it has none.
void note_missing_hash(RunSummary& summary);

/// Samples that were cancelled are no failure, but the run is not done either:
/// it ends with status "cancelled", the exit code of runs that lack images, and
/// a note, which is said on stderr, too. Without any it changes nothing.
void report_cancelled(const JobResult& result, RunSummary& summary);

/// Devices that fell out of a run: marked in the summary's list, noted there,
/// and said on stderr, each once.
void report_lost(const JobRequest& request, std::span<const LostDevice> lost,
                 RunSummary& summary);

/// With which command a run goes on that stopped: a hint. It names the method
/// that --max-rmse chose. Empty where nothing keeps its images.
[[nodiscard]] std::string how_to_go_on(const config::Config& config,
                                       const JobRequest& request,
                                       const RunOutputs& outputs);

/// What a run ends with that could not write an output. A full disk and the
/// like is no fault of the command: the job failed.
[[nodiscard]] Error lost_output(const Failure& failure,
                                const config::Config& config,
                                const JobRequest& request,
                                const RunOutputs& outputs);

}  // namespace troupe::actors
