#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "samplers/parallel/picard.h"
#include "tests/parallel/run_local.h"
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
    for (Task& task : method.ready(kNothingAhead)) {
      tasks.push_back({0, std::move(task), &slots});
    }
    const auto results = run_tasks(runner, bench.ctx, tasks);
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

/// After k sweeps over all points the first k have the sequential bytes. The
/// first sweep of the guess constant_x0 solves point 1 and guesses the others:
/// those are replaced with garbage, another for every point.
inline void expect_exact_after_sweeps(Bench& bench, Evaluator& network,
                                      InitialGuess guess, Carry carry,
                                      const std::string& name) {
  const std::vector<Tensor> exact = exact_points(bench, network);
  const bool spoil = guess == InitialGuess::constant_x0;
  MethodOptions options = picard(bench.calls(), 0, guess);
  options.carry = carry;
  int last_sweep = 0;
  const auto visit = [&](int sweeps, const Task& sweep, SlotTable& slots) {
    for (std::size_t i = 1; spoil && sweeps == 1 && i < sweep.outputs.size();
         ++i) {
      SolverState garbage;
      garbage.latents = Tensor(network.latent_shape(), DType::f32);
      ToyNoise(77).step(0, static_cast<int>(i), garbage.latents);
      slots.put(sweep.outputs[i], garbage);
    }
    for (int point = sweep.from + 1; point <= std::min(sweeps, sweep.to);
         ++point) {
      const Slot slot =
          sweep.outputs[static_cast<std::size_t>(point - sweep.from) - 1];
      EXPECT_TRUE(bytes_equal(std::get<SolverState>(slots.get(slot)).latents,
                              exact[static_cast<std::size_t>(point) - 1]))
          << name << " point " << point;
    }
    last_sweep = sweeps;
  };
  run_rounds(bench, network, options, bench.start(0), visit);
  EXPECT_GT(last_sweep, 1) << name;
  EXPECT_LE(last_sweep, bench.calls()) << name;
}

/// A sweep from the exact trajectory changes no byte, whatever it carries.
inline void expect_exact_is_kept(Bench& bench, Evaluator& network,
                                 const std::string& name) {
  std::vector<SolverState> points = {bench.start(0)};
  std::vector<Tensor> outputs;
  run_rounds(
      bench, network, picard(1), bench.start(0),
      [&](int /*sweeps*/, const Task& sweep, SlotTable& slots) {
        outputs.push_back(std::get<Tensor>(slots.get(sweep.inputs.back())));
        points.push_back(std::get<SolverState>(slots.get(sweep.outputs[0])));
      });
  for (const Carry carry :
       {Carry::identity, Carry::coefficient, Carry::deviation}) {
    MethodOptions options = picard(bench.calls());
    options.carry = carry;
    TaskRunner runner(bench.schedule, network, bench.noise, options);
    SlotTable slots;
    Task sweep{.op = Op::sweep, .to = bench.calls()};
    Slot next = 0;
    for (const SolverState& point : points) {
      slots.put(next, point);
      sweep.inputs.push_back(next++);
    }
    for (const Tensor& output : outputs) {
      slots.put(next, output);
      sweep.inputs.push_back(next++);
    }
    for (int i = 0; i < bench.calls(); ++i) {
      sweep.outputs.push_back(next++);
    }
    const std::vector<BoundTask> tasks = {{0, sweep, &slots}};
    const auto results = run_tasks(runner, bench.ctx, tasks);
    for (std::size_t n = 0; n < outputs.size(); ++n) {
      EXPECT_EQ(results[0].scalars[2 * n], 0.0) << name;
      EXPECT_EQ(results[0].scalars[2 * n + 1], 1.0) << name;
      EXPECT_TRUE(bytes_equal(
          std::get<SolverState>(slots.get(sweep.outputs[n])).latents,
          points[n + 1].latents))
          << name << " point " << n + 1;
    }
  }
}

}  // namespace troupe::samplers::testing
