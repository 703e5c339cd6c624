#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/queue_mark.h"
#include "kernels/reduction.h"
#include "samplers/parallel/task_runner.h"

namespace troupe::samplers {

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

}  // namespace troupe::samplers
