#include "samplers/parallel/task_runner.h"

#include <map>
#include <utility>

#include "kernels/core/pixel_bytes.h"
#include "samplers/parallel/op_run.h"

namespace troupe::samplers {
namespace {

/// Numbers that the tasks of a run read off their tensors: whether what a step
/// made is finite, and scalars.
std::size_t count_readings(std::span<const BoundTask> tasks) {
  std::size_t count = 0;
  for (const BoundTask& bound : tasks) {
    count += (step_of(bound.task) ? 1 : 0) + num_scalars(bound.task);
  }
  return count;
}

}  // namespace

TaskRunner::TaskRunner(const Schedule& schedule, Evaluator& evaluator,
                       NoiseSource& noise, const MethodOptions& options)
    : schedule_(schedule),
      evaluator_(evaluator),
      noise_(noise),
      options_(options) {}

std::unique_ptr<QueuedTasks> TaskRunner::queue(ExecContext& ctx,
                                               std::vector<BoundTask> tasks) {
  auto queued = std::make_unique<QueuedTasks>(std::move(tasks));
  const OpRun run{.ctx = ctx,
                  .schedule = schedule_,
                  .evaluator = evaluator_,
                  .noise = noise_,
                  .options = options_,
                  .queued = *queued};
  std::map<std::pair<Op, int>, std::vector<const BoundTask*>> passes;
  if (const std::size_t count = count_readings(queued->tasks); count > 0) {
    queued->readings.emplace(ctx, count);
  }
  for (const BoundTask& bound : queued->tasks) {
    const Task& task = bound.task;
    if (task.op->joins()) {
      passes[{task.op, task.segment}].push_back(&bound);
    } else {
      const BoundTask* const one = &bound;
      task.op->run(run, {&one, 1});
    }
  }
  for (const auto& [kind, rows] : passes) {
    kind.first->run(run, rows);
  }
  if (queued->readings) {
    queued->readings->send();
  }
  queued->end = ctx.mark();
  return queued;
}

std::vector<TaskResult> TaskRunner::finish(QueuedTasks& queued) {
  queued.end.wait();
  std::vector<TaskResult> results;
  results.reserve(queued.tasks.size());
  for (const BoundTask& bound : queued.tasks) {
    results.push_back({bound.task.id, bound.task.version, {}});
  }
  for (const QueuedTasks::Verdict& verdict : queued.verdicts) {
    const auto task =
        static_cast<std::size_t>(verdict.bound - queued.tasks.data());
    results[task].scalars = verdict.judge(queued.readings->values());
  }
  for (QueuedTasks::Output& output : queued.outputs) {
    if (output.is_pixels) {
      output.value = pixel_bytes(std::get<Tensor>(output.value));
    }
    output.slots->put(output.slot, std::move(output.value));
  }
  return results;
}

}  // namespace troupe::samplers
