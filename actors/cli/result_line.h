#pragma once

#include <string>

#include "actors/artefacts/summary.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// The line that `troupe sample` ends with: what was made, how, where it is and
/// the hash of the latents. To stdout, or to stderr where the image went to
/// stdout. `company` is that of describe_company.
void print_result(const RunSummary& summary, const RunOutputs& outputs,
                  const std::string& company);

/// Notes why the summary has no hash over all latents, if it has none.
void note_missing_hash(RunSummary& summary);

}  // namespace troupe::actors
