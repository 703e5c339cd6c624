#pragma once

#include <cstdint>
#include <map>

#include "actors/artefacts/png.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// Writes the contact sheet of --grid, if one is asked for and there is a
/// picture: `pictures` by sample, and those that are skipped read from their
/// files. Errors: Errc::io, Errc::corrupt_file.
void write_sheet(const RunOutputs& outputs,
                 std::map<std::uint64_t, Image> pictures);

}  // namespace troupe::actors
