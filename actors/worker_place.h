#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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
  /// Of a GPU: bytes that its memory keeps for values; 0: no limit.
  std::uint64_t value_budget = 0;
  double row_seconds = 0;  ///< see WorkerTraits
};

/// The threads of the host that these workers compute on.
[[nodiscard]] inline int num_threads(const std::vector<WorkerPlace>& workers) {
  int threads = 0;
  for (const WorkerPlace& place : workers) {
    threads += place.threads;
  }
  return threads;
}

/// The most rows of a forward pass: those that were asked for, else as many as
/// the worker has threads, or on a GPU the most of the method. Rows that share
/// a thread gain nothing from a pass of their own: eight at once take a core
/// 7.2 s of the demo model's work, one after the other 6.4 s, and the next
/// round of a Picard window need not wait for all of them.
[[nodiscard]] inline int rows_per_forward(
    const WorkerPlace& place, const samplers::MethodOptions& method) {
  if (place.max_rows > 0) {
    return place.max_rows;
  }
  const auto most_rows = method.kind->most_rows;
  if (most_rows == nullptr) {
    return place.threads;
  }
  return place.device.kind == DeviceKind::cpu
             ? std::min(most_rows(method), std::max(place.threads, 1))
             : most_rows(method);
}

}  // namespace troupe::actors
