#include "samplers/parallel/task_runner.h"

#include <array>
#include <map>
#include <utility>

#include "kernels/core/pixel_bytes.h"
#include "samplers/parallel/op_run.h"

namespace troupe::samplers {

std::unique_ptr<QueuedTasks> TaskRunner::queue(ExecContext& ctx,
                                               std::vector<BoundTask> tasks) {
  auto queued = std::make_unique<QueuedTasks>(std::move(tasks));
  const OpRun run{ctx, schedule_, evaluator_, noise_, options_, *queued};
  // Whether what steps made is finite, and scalars.
  std::size_t num_readings = 0;
  for (const BoundTask& bound : queued->tasks) {
    num_readings += (step_of(bound.task) ? 1 : 0) + num_scalars(bound.task);
  }
  if (num_readings > 0) {
    queued->readings.emplace(ctx, num_readings);
  }
  std::map<std::pair<Op, int>, std::vector<const BoundTask*>> passes;
  for (const BoundTask& bound : queued->tasks) {
    if (const Op op = bound.task.op; op->joins()) {
      passes[{op, bound.task.segment}].push_back(&bound);
    } else {
      op->run(run, std::array{&bound});
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
