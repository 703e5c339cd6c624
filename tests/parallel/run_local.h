#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "samplers/parallel/queued_tasks.h"

namespace troupe::samplers {

/// Queues the tasks, and waits until they are done.
[[nodiscard]] inline std::vector<TaskResult> run_tasks(
    TaskRunner& runner, ExecContext& ctx, std::span<const BoundTask> tasks) {
  const auto queued = runner.queue(ctx, {tasks.begin(), tasks.end()});
  return runner.finish(ctx, *queued);
}

/// The plain-loop driver: runs one method instance to its end on the calling
/// thread and returns the final state.
[[nodiscard]] inline SolverState run_local(Method& method, TaskRunner& runner,
                                           ExecContext& ctx,
                                           std::uint64_t sample_index,
                                           SolverState initial) {
  SlotTable slots;
  slots.put(kInitialSlot, std::move(initial));
  while (!method.done()) {
    std::vector<BoundTask> tasks;
    for (Task& task : method.ready(kNothingAhead)) {
      tasks.push_back({sample_index, std::move(task), &slots});
    }
    require(!tasks.empty(), Errc::internal, "run_local",
            "a method that is not done has nothing to do");
    const std::vector<TaskResult> results = run_tasks(runner, ctx, tasks);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (const auto dead = method.apply(results[i])) {
        slots.erase(*dead);
      }
    }
  }
  return std::get<SolverState>(slots.get(method.result_slot()));
}

}  // namespace troupe::samplers
