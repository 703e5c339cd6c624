#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/evaluator.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/slot_table.h"
#include "samplers/solver.h"

namespace troupe::samplers {

struct QueuedTasks;

/// A task of one sample, with that sample's slots.
struct BoundTask {
  std::uint64_t sample_index = 0;
  Task task;
  SlotTable* slots = nullptr;
};

/// Does the arithmetic of tasks, as the rows of their ops say (op_row.h). Tasks
/// handed over together that are of one op and one segment go through the
/// network as one forward pass. A task without a forward pass may read the
/// output of an earlier task of the same call. Running a task again writes the
/// same bytes into the same slots.
///
/// Slots may hold tensors of the host or of any device that ctx reaches: they
/// are brought to ctx's device, and what is made stays there, but for pixels
/// and the latents at the end of the schedule, which go to the host. On a
/// device work is only queued; what steps and sweeps must know of their latents
/// is read back once for all tasks handed over together, and while it is on its
/// way more tasks may be queued. `finish` writes the slots, so a filled slot
/// holds a complete value.
/// Thread: one ctx per thread; the runner itself may be shared.
class TaskRunner {
 public:
  TaskRunner(const Schedule& schedule, Evaluator& evaluator, NoiseSource& noise,
             const MethodOptions& options);

  /// Queues the tasks; on the CPU, computes them. Errors: those of the
  /// evaluator.
  [[nodiscard]] std::unique_ptr<QueuedTasks> queue(
      ExecContext& ctx, std::vector<BoundTask> tasks);
  /// Waits until the queued tasks are done; later tasks may have been queued
  /// meanwhile. Results in the order of the tasks. Errors: Errc::non_finite
  /// with sample, step and, where the evaluator can say it, block when a state
  /// is not finite; Errc::device_lost. Thread: that of `queue`.
  [[nodiscard]] std::vector<TaskResult> finish(QueuedTasks& queued);

 private:
  const Schedule& schedule_;
  Evaluator& evaluator_;
  NoiseSource& noise_;
  MethodOptions options_;
};

}  // namespace troupe::samplers
