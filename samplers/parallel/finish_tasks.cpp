// The part of TaskRunner that looks at what the queue has done.

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "samplers/parallel/queued_tasks.h"

namespace troupe::samplers {

std::vector<TaskResult> TaskRunner::run(ExecContext& ctx,
                                        std::span<const BoundTask> tasks) {
  const auto queued = queue(ctx, {tasks.begin(), tasks.end()});
  return finish(ctx, *queued);
}

std::vector<TaskResult> TaskRunner::finish(ExecContext& ctx,
                                           QueuedTasks& queued) {
  queued.end.wait();
  std::vector<TaskResult> results;
  results.reserve(queued.tasks.size());
  for (const BoundTask& bound : queued.tasks) {
    results.push_back({bound.task.id, bound.task.version, {}});
  }
  if (queued.readings) {
    judge(ctx, queued, results);
  }
  for (QueuedTasks::Output& output : queued.outputs) {
    output.slots->put(output.slot, std::move(output.value));
  }
  return results;
}

void TaskRunner::judge(ExecContext& ctx, QueuedTasks& queued,
                       std::span<TaskResult> results) {
  const std::span<const double> values = queued.readings->values();
  for (const QueuedTasks::Step& done : queued.steps) {
    const BoundTask& bound = *done.bound;
    if (values[done.finite] == 0.0) {
      name_block(
          ctx, bound, bound.task.from, done.latents,
          non_finite_error(bound.sample_index, bound.task.from, schedule_));
    }
  }
  for (const QueuedTasks::Sweep& done : queued.sweeps) {
    const auto result =
        static_cast<std::size_t>(done.bound - queued.tasks.data());
    try {
      results[result].scalars = sweep_scalars(done.input, done.output, values);
    } catch (const Error& error) {
      name_output(ctx, *done.bound, done.input, error);
    }
  }
}

void TaskRunner::name_block(ExecContext& ctx, const BoundTask& bound, int call,
                            const Tensor& latents, const Error& error) {
  std::string where;
  try {
    const EvaluateRow row{
        .sample_index = bound.sample_index,
        .branch = Branch::guided,
        .timestep = schedule_.timestep(call),
        .latents = scale_model_input(ctx, schedule_, call, latents),
        .output = {}};
    where = evaluator_.first_non_finite(ctx, row);
  } catch (const std::bad_alloc&) {
    // As below.
  } catch (const Error& other) {
    // What runs a segment alone may not have the blocks to look in, or no
    // memory for it: the sample is at fault all the same. A device that fails
    // may have made the NaN.
    if (other.code() == Errc::interrupted ||
        other.code() == Errc::device_lost) {
      throw;
    }
  }
  const std::string cause =
      where.empty() ? "" : "; the first NaN or infinity appears in " + where;
  throw Error(error.code(), error.place(), error.message() + cause,
              error.hint());
}

void TaskRunner::name_output(ExecContext& ctx, const BoundTask& bound,
                             const SweepInput& input, const Error& error) {
  kernels::Readings readings(ctx, input.outputs.size());
  for (const Tensor& output : input.outputs) {
    readings.all_finite(output);
  }
  const std::span<const double> finite = readings.wait();
  const auto bad = std::ranges::find(finite, 0.0);
  if (bad == finite.end()) {
    throw error;
  }
  const auto i = static_cast<std::size_t>(bad - finite.begin());
  name_block(ctx, bound, input.from + static_cast<int>(i),
             input.states[i].latents, error);
}

SolverState run_local(Method& method, TaskRunner& runner, ExecContext& ctx,
                      std::uint64_t sample_index, SolverState initial) {
  SlotTable slots;
  slots.put(kInitialSlot, std::move(initial));
  while (!method.done()) {
    std::vector<BoundTask> tasks;
    for (Task& task : method.ready()) {
      tasks.push_back({sample_index, std::move(task), &slots});
    }
    require(!tasks.empty(), Errc::internal, "run_local",
            "a method that is not done has nothing to do");
    const std::vector<TaskResult> results = runner.run(ctx, tasks);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (method.apply(results[i])) {
        slots.erase(tasks[i].task.frees);
      }
    }
  }
  return std::get<SolverState>(slots.get(method.result_slot()));
}

}  // namespace troupe::samplers
