#pragma once

#include <utility>
#include <vector>

#include "samplers/parallel/picard.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {

/// Runs `options` over `network` round by round and shows every point of the
/// window after each sweep: visit(sweeps so far, the sweep, slots). Values may
/// be replaced there. Returns the rounds.
template <typename Visit>
std::int64_t run_rounds(Bench& bench, Evaluator& network,
                        const MethodOptions& options, SolverState start,
                        const Visit& visit) {
  Picard method(options, bench.calls());
  TaskRunner runner(bench.schedule, network, bench.noise, options);
  SlotTable slots;
  slots.put(kInitialSlot, std::move(start));
  for (int sweeps = 0; !method.done();) {
    std::vector<BoundTask> tasks;
    for (Task& task : method.ready()) {
      tasks.push_back({0, std::move(task), &slots});
    }
    const auto results = runner.run(bench.ctx, tasks);
    if (tasks.front().task.op == Op::sweep) {
      visit(++sweeps, tasks.front().task, slots);
    }
    for (const TaskResult& result : results) {
      method.apply(result);
    }
  }
  return method.progress().rounds;
}

template <typename Visit>
std::int64_t run_rounds(Bench& bench, const MethodOptions& options,
                        SolverState start, const Visit& visit) {
  return run_rounds(bench, bench.evaluator, options, std::move(start), visit);
}

/// The sequential chain: latents of points 1 … T.
[[nodiscard]] inline std::vector<Tensor> exact_points(Bench& bench,
                                                      Evaluator& network) {
  std::vector<Tensor> points;
  run_rounds(bench, network, picard(1), bench.start(0),
             [&](int /*sweeps*/, const Task& sweep, SlotTable& slots) {
               points.push_back(
                   std::get<SolverState>(slots.get(sweep.outputs[0])).latents);
             });
  return points;
}

}  // namespace troupe::samplers::testing
