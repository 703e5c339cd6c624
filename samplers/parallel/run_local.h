#pragma once

#include <cstdint>

#include "samplers/parallel/task_runner.h"

namespace troupe::samplers {

/// The plain-loop driver: runs one method instance to its end on the calling
/// thread and returns the final state. What unit tests and the simulator use.
[[nodiscard]] SolverState run_local(Method& method, TaskRunner& runner,
                                    ExecContext& ctx,
                                    std::uint64_t sample_index,
                                    SolverState initial);

}  // namespace troupe::samplers
