#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/queue_mark.h"
#include "kernels/reduction.h"
#include "samplers/evaluator.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/slot_table.h"
#include "samplers/solver.h"

namespace troupe::samplers {

/// A task of one sample, with that sample's slots.
struct BoundTask {
  std::uint64_t sample_index = 0;
  Task task;
  SlotTable* slots = nullptr;
};

/// Tasks that a TaskRunner has queued; on the CPU they are done. Slots are
/// written by TaskRunner::finish: a task that runs a second time must not
/// replace a complete value by one that is still to come. Thread: the
/// context's.
struct QueuedTasks {
  struct Output {
    Slot slot;
    SlotTable* slots;
    SlotTable::Value value;
    bool is_pixels = false;  ///< becomes bytes once it is there
  };
  /// Once a task's work is done: makes the scalars of its result, or throws.
  struct Verdict {
    const BoundTask* bound;
    std::function<std::vector<double>(std::span<const double> readings)> judge;
  };

  explicit QueuedTasks(std::vector<BoundTask> bound)
      : tasks(std::move(bound)) {}
  QueuedTasks(const QueuedTasks&) = delete;  // there are pointers to tasks
  QueuedTasks& operator=(const QueuedTasks&) = delete;

  void write(const BoundTask& bound, Slot slot, SlotTable::Value value) {
    outputs.push_back({slot, bound.slots, std::move(value)});
  }
  /// The first output, or the only one.
  void write(const BoundTask& bound, SlotTable::Value value) {
    write(bound, bound.task.outputs.at(0), std::move(value));
  }

  /// The present or future value of a slot: still in the queue if these tasks
  /// write the slot.
  /// Errors: Errc::internal when the slot is empty.
  [[nodiscard]] SlotTable::Value get(const BoundTask& bound, Slot slot) const {
    for (const Output& output : outputs) {
      if (output.slots == bound.slots && output.slot == slot) {
        return output.value;
      }
    }
    return bound.slots->get(slot);
  }

  std::vector<BoundTask> tasks;
  std::optional<kernels::Readings> readings;
  std::vector<Verdict> verdicts;
  std::vector<Output> outputs;
  QueueMark end;  ///< when it has passed, all is done
};

/// Does the arithmetic of tasks, as the rows of their ops say (op_row.h). Tasks
/// handed over together that are of one op and one segment go through the
/// network as one forward pass. A task without a forward pass may read the
/// output of an earlier task of the same call.
///
/// Slots may hold tensors of the host or of any device that ctx reaches: they
/// are brought to ctx's device, and what is made stays there, but for pixels
/// and the latents at the end of the schedule, which go to the host. What ops
/// must know of their tensors is read back once for all tasks handed over
/// together, and while it is on its way more tasks may be queued.
/// Thread: one ctx per thread; the runner itself may be shared.
class TaskRunner {
 public:
  TaskRunner(const Schedule& schedule, Evaluator& evaluator, NoiseSource& noise,
             const MethodOptions& options)
      : schedule_(schedule),
        evaluator_(evaluator),
        noise_(noise),
        options_(options) {}

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
