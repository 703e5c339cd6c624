#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// The whole program: arguments without its name to exit code. Whatever goes
/// wrong below ends here as one line on stderr, and with --json as one object
/// on stdout. Thread: the main thread, with stop signals blocked.
[[nodiscard]] int run_troupe(const std::vector<std::string>& arguments);

}  // namespace troupe::actors
