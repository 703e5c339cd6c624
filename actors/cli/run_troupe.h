#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/core/system/machine.h"

namespace troupe::actors {

/// The whole program: arguments without its name to exit code. Whatever goes
/// wrong below ends here as one line on stderr, and with --json as one object
/// on stdout. `runs_here` says whether this processor will do. Thread: the main
/// thread, with stop signals blocked.
[[nodiscard]] int run_troupe(
    const std::vector<std::string>& arguments,
    const std::function<bool()>& runs_here = cpu_is_supported);

}  // namespace troupe::actors
