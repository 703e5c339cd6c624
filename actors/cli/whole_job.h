#pragma once

#include <set>
#include <string>

#include "actors/artefacts/summary.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// What can be said of a job as a whole when some of its images were there
/// before this run.

/// The execution classes of the images that were there.
[[nodiscard]] std::set<std::string> classes_there(const RunOutputs& outputs);

/// The class, or "mixed" where there are several.
[[nodiscard]] std::string one_class(const std::set<std::string>& classes);

/// XXH3-64 over the rows of --save that were there, in index order; empty if
/// there are none.
[[nodiscard]] std::string hash_of_earlier_rows(const RunOutputs& outputs);

/// Why a summary has no hash over all latents; empty if it has one.
[[nodiscard]] std::string why_no_hash(const RunSummary& summary);

/// Adds that to the notes of the summary.
void note_missing_hash(RunSummary& summary);

}  // namespace troupe::actors
