#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/core/attention_plan.h"
#include "kernels/core/device.h"
#include "kernels/core/device_backend.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

/// A worker, as it is known before it comes up: where it runs, and how.
struct WorkerTraits {
  /// Workers of one class, numbered from 0 on, compute the same bytes: a sample
  /// stays within one.
  int execution_class = 0;
  /// A GPU that fails takes all its workers along, and all values in its
  /// memory.
  Device device;
  /// Most rows of one forward pass; 0: see rows_per_forward.
  int max_rows = 0;
  /// The process whose values it reads and writes; 0: the coordinator's. Of a
  /// JobSpec they rise by one at most from one worker to the next.
  int process = 0;
  /// Of a GPU: bytes of the device's memory that are kept for values, for all
  /// its workers together; 0: no limit. See CoordinatorOptions::value_budgets.
  std::uint64_t value_budget = 0;
  int threads = 1;  ///< of the host, of all its shards together
  /// Groups of threads that compute a pass together, each with some of the
  /// tokens (ThreadTeam); known in its own process alone.
  int shards = 1;
  AttentionPlan plan = AttentionPlan::gather;  ///< of the shards; as these
  /// GPUs that compute each pass together with `device` (DeviceTeam); known in
  /// its own process alone.
  std::vector<Device> others = {};
  GpuExchange exchange = GpuExchange::peer;  ///< of these
  /// Seconds that a row took on such a worker in earlier jobs; 0: not known.
  /// Rows are placed by it until results of this job outweigh it.
  double row_seconds = 0;
  /// Of its context; known in its own process alone.
  DeviceOptions options = {};
};

/// The threads that these workers start: ranks have threads of their own beside
/// those of the worker (RankTeam).
[[nodiscard]] inline int num_threads(const std::vector<WorkerTraits>& workers) {
  int threads = 0;
  for (const WorkerTraits& one : workers) {
    threads += (one.shards > 1 ? 2 : 1) * one.threads +
               static_cast<int>(one.others.size());
  }
  return threads;
}

/// The most rows of a forward pass: those that were asked for, else as many as
/// the worker has threads, or on a GPU the most of the method. Rows that share
/// a thread gain nothing from a pass of their own: eight at once take a core
/// 7.2 s of the demo model's work, one after the other 6.4 s, and the next
/// round of a Picard window need not wait for all of them.
[[nodiscard]] inline int rows_per_forward(
    const WorkerTraits& worker, const samplers::MethodOptions& method) {
  if (worker.max_rows > 0) {
    return worker.max_rows;
  }
  const int threads = std::max(worker.threads, 1);
  const auto most_rows = method.kind->most_rows;
  if (most_rows == nullptr) {
    return threads;
  }
  return worker.device.kind == DeviceKind::cpu
             ? std::min(most_rows(method), threads)
             : most_rows(method);
}

}  // namespace troupe::actors
