#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "samplers/parallel/op_run.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {

/// Runs `options` over `network` round by round and shows every point that is
/// swept: visit(round, counted from 1; the sweep; slots). Values may be
/// replaced there. Returns the rounds.
template <typename Visit>
std::int64_t run_rounds(Bench& bench, Evaluator& network,
                        const MethodOptions& options, SolverState start,
                        const Visit& visit) {
  const auto method = make_method(options, bench.schedule);
  TaskRunner runner(bench.schedule, network, bench.noise, options);
  SlotTable slots;
  slots.put(kInitialSlot, std::move(start));
  std::vector<BoundTask> waiting;
  for (int round = 0; !method->done();) {
    for (Task& task : method->ready(kNothingAhead)) {
      waiting.push_back({0, std::move(task), &slots});
    }
    const std::vector<BoundTask> tasks = take_next(waiting);
    const auto results = run_tasks(runner, bench.ctx, tasks);
    for (const BoundTask& bound : tasks) {
      if (bound.task.op == Op::sweep) {
        // The first point of a round is as it was.
        round += bound.task.inputs[0] == bound.task.inputs[1] ? 1 : 0;
        visit(round, bound.task, slots);
      }
    }
    for (const TaskResult& result : results) {
      method->apply(result);
    }
  }
  return method->progress().rounds;
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
             [&](int /*round*/, const Task& sweep, SlotTable& slots) {
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
  const bool spoil = guess != InitialGuess::last_point;
  MethodOptions options = picard(bench.calls(), 0, guess);
  options.carry = carry;
  int last_sweep = 0;
  const auto visit = [&](int round, const Task& sweep, SlotTable& slots) {
    for (std::size_t i = 1; spoil && round == 1 && i < sweep.outputs.size();
         ++i) {
      SolverState garbage;
      garbage.latents = Tensor(network.latent_shape(), DType::f32);
      ToyNoise(77).step(0, static_cast<int>(i), garbage.latents);
      slots.put(sweep.outputs[i], garbage);
    }
    if (sweep.to <= round) {
      EXPECT_TRUE(bytes_equal(
          std::get<SolverState>(slots.get(sweep.outputs[0])).latents,
          exact[static_cast<std::size_t>(sweep.from)]))
          << name << " point " << sweep.to;
    }
    last_sweep = round;
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
      [&](int /*round*/, const Task& sweep, SlotTable& slots) {
        outputs.push_back(std::get<Tensor>(slots.get(sweep.inputs[3])));
        points.push_back(std::get<SolverState>(slots.get(sweep.outputs[0])));
      });
  for (const Carry carry :
       {Carry::identity, Carry::coefficient, Carry::deviation}) {
    MethodOptions options = picard(bench.calls());
    options.carry = carry;
    TaskRunner runner(bench.schedule, network, bench.noise, options);
    SlotTable slots;
    const auto calls = static_cast<Slot>(bench.calls());
    const Slot first_output = calls + 1;
    const Slot first_swept = first_output + calls;
    for (Slot n = 0; n <= calls; ++n) {
      slots.put(n, points[n]);
    }
    std::vector<BoundTask> tasks;
    for (Slot n = 0; n < calls; ++n) {
      slots.put(first_output + n, outputs[n]);
      const auto call = static_cast<int>(n);
      const Slot here = n == 0 ? 0 : first_swept + n - 1;
      tasks.push_back(
          {0,
           {.op = Op::sweep,
            .from = call,
            .to = call + 1,
            .inputs = {here, n, n + 1, first_output + n},
            .outputs = {first_swept + n},
            .coefficients = sweep_coefficients(options, bench.schedule, call)},
           &slots});
    }
    // A sweep reads the output of the sweep before.
    const auto results = run_tasks(runner, bench.ctx, tasks);
    for (Slot n = 0; n < calls; ++n) {
      EXPECT_EQ(results[n].scalars, (std::vector<double>{0.0, 1.0})) << name;
      EXPECT_TRUE(
          bytes_equal(std::get<SolverState>(slots.get(first_swept + n)).latents,
                      points[n + 1].latents))
          << name << " point " << n + 1;
    }
  }
}

}  // namespace troupe::samplers::testing
