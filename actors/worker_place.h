#pragma once

#include "kernels/core/device.h"
#include "kernels/core/device_backend.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

/// Where a worker runs, and how.
struct WorkerPlace {
  Device device;
  int threads = 1;  ///< of the host
  DeviceOptions options;
  /// Workers with equal numbers (0, 1, …) compute the same bytes.
  int execution_class = 0;
  /// Most rows of one forward pass; 0: see rows_per_forward.
  int max_rows = 0;
  /// Workers with equal numbers share their values, as in one process. Numbers
  /// rise by one at most from one worker to the next; 0 is the coordinator's.
  int process = 0;
};

/// The most rows of a forward pass: those that were asked for, else the
/// worker's threads or its share of a Picard window.
[[nodiscard]] inline int rows_per_forward(
    const WorkerPlace& place, const samplers::MethodOptions& method) {
  if (place.max_rows > 0) {
    return place.max_rows;
  }
  const auto most_rows = method.kind->most_rows;
  return most_rows != nullptr ? most_rows(method) : place.threads;
}

}  // namespace troupe::actors
