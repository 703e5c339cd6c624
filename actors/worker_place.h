#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core/device_backend.h"

namespace troupe::actors {

/// Where a worker runs, and how.
struct WorkerPlace {
  Device device;
  int threads = 1;  ///< of the host
  DeviceOptions options;
  /// Workers with equal numbers (0, 1, …) compute the same bytes.
  int execution_class = 0;
  /// Most rows of one forward pass; 0: the job's.
  int max_rows = 0;
};

/// `num_workers` alike on the CPU.
[[nodiscard]] inline std::vector<WorkerPlace> cpu_workers(int num_workers,
                                                          int threads = 1) {
  return std::vector<WorkerPlace>(
      static_cast<std::size_t>(std::max(num_workers, 0)),
      WorkerPlace{.threads = threads});
}

}  // namespace troupe::actors
