#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "samplers/parallel/task_runner.h"

namespace troupe::samplers {

/// Queues the tasks, and waits until they are done.
[[nodiscard]] inline std::vector<TaskResult> run_tasks(
    TaskRunner& runner, ExecContext& ctx, std::span<const BoundTask> tasks) {
  const auto queued = runner.queue(ctx, {tasks.begin(), tasks.end()});
  return runner.finish(*queued);
}

/// Removes and returns the next tasks to run: all sweeps, or without sweeps all
/// other tasks, so that a round of a window is one forward pass.
[[nodiscard]] inline std::vector<BoundTask> take_next(
    std::vector<BoundTask>& tasks) {
  const auto others = std::stable_partition(
      tasks.begin(), tasks.end(),
      [](const BoundTask& bound) { return bound.task.op == Op::sweep; });
  const auto end = others == tasks.begin() ? tasks.end() : others;
  std::vector<BoundTask> next(tasks.begin(), end);
  tasks.erase(tasks.begin(), end);
  return next;
}

/// The plain-loop driver: runs one method instance to its end on the calling
/// thread and returns the final state.
[[nodiscard]] inline SolverState run_local(Method& method, TaskRunner& runner,
                                           ExecContext& ctx,
                                           std::uint64_t sample_index,
                                           SolverState initial) {
  SlotTable slots;
  slots.put(kInitialSlot, std::move(initial));
  std::vector<BoundTask> waiting;
  while (!method.done()) {
    for (Task& task : method.ready(kNothingAhead)) {
      waiting.push_back({sample_index, std::move(task), &slots});
    }
    require(!waiting.empty(), Errc::internal, "run_local",
            "a method that is not done has nothing to do");
    for (const TaskResult& result :
         run_tasks(runner, ctx, take_next(waiting))) {
      if (const auto dead = method.apply(result)) {
        slots.erase(*dead);
      }
    }
  }
  return std::get<SolverState>(slots.get(method.result_slot()));
}

}  // namespace troupe::samplers
