// Order, placement, delays and duplicates never change a result.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <memory>

#include "tests/parallel/run_local.h"
#include "tests/parallel/simulator.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

constexpr int kSteps = 9;

RC_GTEST_PROP(AnyOrder, GivesTheBytesOfThePlainLoop, ()) {
  const auto cases = solver_cases(kSteps);
  const SolverCase& solver =
      cases[*rc::gen::inRange<std::size_t>(0, cases.size())];
  const auto all = method_cases();
  const MethodOptions options =
      all[*rc::gen::inRange<std::size_t>(0, all.size())];
  const int workers = *rc::gen::inRange(1, 6);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int samples = *rc::gen::inRange(1, 5);
  const int frozen = *rc::gen::inRange(-1, workers);

  Bench bench(solver.options);
  RC_PRE(can_carry(options, bench.schedule));
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  Simulator simulator(runner, bench.ctx, workers, seed);
  simulator.freeze(frozen);
  for (int i = 0; i < samples; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    simulator.add(index, make_method(options, bench.schedule),
                  bench.start(index));
  }
  simulator.run();
  for (int i = 0; i < samples; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const auto alone = make_method(options, bench.schedule);
    const Tensor expected = bench.run(*alone, options, index).latents;
    RC_ASSERT(bytes_equal(simulator.latents(index), expected));
    const Progress got = simulator.method(index).progress();
    RC_ASSERT(got.nfe == alone->progress().nfe);
    RC_ASSERT(got.rounds == alone->progress().rounds);
  }
}

/// Runs `samples` in a random order on `workers` and expects the sequential
/// bytes of each.
void expect_sequential_in_any_order(const MethodOptions& options, Bench& bench,
                                    int workers, int samples) {
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  Simulator simulator(runner, bench.ctx, workers,
                      *rc::gen::arbitrary<std::uint64_t>());
  simulator.freeze(*rc::gen::inRange(-1, workers));
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(samples); ++i) {
    simulator.add(i, make_method(options, bench.schedule), bench.start(i));
  }
  simulator.run();
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
    RC_ASSERT(bytes_equal(simulator.latents(i),
                          bench.run(MethodOptions{}, i).latents));
  }
}

RC_GTEST_PROP(AnyOrder, WindowAndWorkersLeavePicardAtToleranceZeroExact, ()) {
  const auto cases = solver_cases(kSteps);
  Bench bench(cases[*rc::gen::inRange<std::size_t>(0, cases.size())].options);
  MethodOptions options = picard(*rc::gen::inRange(1, bench.calls() + 1));
  options.carry = *rc::gen::element(Carry::identity, Carry::coefficient);
  options.initial_guess =
      *rc::gen::element(InitialGuess::last_point, InitialGuess::constant_x0,
                        InitialGuess::linear_x0, InitialGuess::trajectory);
  expect_sequential_in_any_order(options, bench, *rc::gen::inRange(1, 6),
                                 *rc::gen::inRange(1, 4));
}

RC_GTEST_PROP(AnyOrder, SegmentsAndWorkersLeaveFreshPipelinesExact, ()) {
  const auto cases = solver_cases(kSteps);
  MethodOptions options{
      .kind = *rc::gen::element(MethodKind::pipeline, MethodKind::stale),
      .num_segments = *rc::gen::inRange(1, 6),
      .cut = *rc::gen::element(CutShape::chain, CutShape::onion),
      .age = 0};
  Bench bench(cases[*rc::gen::inRange<std::size_t>(0, cases.size())].options,
              Shape{1, 3, 5}, num_segments(options));
  bench.evaluator.skip_weight = options.cut == CutShape::onion ? 0.5F : 0.0F;
  options.warmup_steps = *rc::gen::inRange(0, 4);
  expect_sequential_in_any_order(options, bench, *rc::gen::inRange(1, 6),
                                 *rc::gen::inRange(1, 4));
}

/// Stale onions have their own answer, independent of workers and timing.
RC_GTEST_PROP(AnyOrder, StaleOnionsGiveThePlainLoopsBytes, ()) {
  const int parts = *rc::gen::inRange(2, 6);
  MethodOptions options{
      .kind = MethodKind::stale, .num_segments = parts, .cut = CutShape::onion};
  options.ages = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(parts - 1), rc::gen::inRange(0, 4));
  options.warmup_steps = *rc::gen::inRange(1, 4);
  options.final_fresh_steps = *rc::gen::inRange(0, 3);
  const auto cases = solver_cases(kSteps);
  Bench bench(cases[*rc::gen::inRange<std::size_t>(0, cases.size())].options,
              Shape{1, 3, 5}, num_segments(options));
  bench.evaluator.skip_weight = 0.5F;
  const int samples = *rc::gen::inRange(1, 4);
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  Simulator simulator(runner, bench.ctx, *rc::gen::inRange(1, 6),
                      *rc::gen::arbitrary<std::uint64_t>());
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(samples); ++i) {
    simulator.add(i, make_method(options, bench.schedule), bench.start(i));
  }
  simulator.run();
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
    RC_ASSERT(bytes_equal(simulator.latents(i), bench.run(options, i).latents));
  }
}

TEST(AnyOrder, DropsResultsThatComeTwice) {
  const MethodOptions options{.kind = MethodKind::picard, .window_size = 4};
  Bench bench(steps(20));
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  Simulator simulator(runner, bench.ctx, 3, 11);
  simulator.add(0, make_method(options, bench.schedule), bench.start(0));
  simulator.run();
  EXPECT_GT(simulator.dropped(), 0U);
}

TEST(Slots, AreFreedWhileTheRunGoesOn) {
  for (const MethodOptions& options : method_cases()) {
    std::size_t most = 0;
    for (const int steps_taken : {20, 80}) {
      Bench bench(steps_for(options, steps_taken));
      TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
      Simulator simulator(runner, bench.ctx, 2, 3);
      simulator.add(0, make_method(options, bench.schedule), bench.start(0));
      simulator.run();
      // Four times the steps need no more slots: the live ones, and 10 slots
      // whose erasure is still to come.
      const LiveValues live = most_live(options, 20, kNothingAhead);
      const auto bound = static_cast<std::size_t>(
          live.states + live.outputs + live.boundaries + live.skips + 10);
      EXPECT_LE(simulator.most_slots(), bound);
      most = std::max(most, simulator.most_slots());
      EXPECT_LE(simulator.slots_left(0), bound);
    }
    EXPECT_GE(most, 2U);
  }
}

TEST(Replicas, ThatTakeTheSameStepHoldTheSameBytes) {
  for (const SolverCase& solver : solver_cases(kSteps)) {
    for (const MethodOptions& options : method_cases()) {
      Bench bench(solver.options);
      if (!can_carry(options, bench.schedule)) {
        continue;
      }
      TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
      const auto method = make_method(options, bench.schedule);
      SlotTable first;
      SlotTable second;
      first.put(kInitialSlot, bench.start(0));
      second.put(kInitialSlot, bench.start(0));
      int states = 0;
      while (!method->done()) {
        for (const Task& task : method->ready(kNothingAhead)) {
          const std::vector<BoundTask> a = {{0, task, &first}};
          const std::vector<BoundTask> b = {{0, task, &second}};
          const auto results = run_tasks(runner, bench.ctx, a);
          EXPECT_EQ(run_tasks(runner, bench.ctx, b).front().scalars,
                    results.front().scalars);
          for (const Slot out : task.outputs) {
            const auto value = first.get(out);
            if (const auto* state = std::get_if<SolverState>(&value)) {
              ++states;
              EXPECT_TRUE(
                  bytes_equal(state->latents,
                              std::get<SolverState>(second.get(out)).latents));
            }
          }
          EXPECT_TRUE(method->apply(results.front()));
        }
      }
      EXPECT_GE(states, bench.calls()) << solver.name;
    }
  }
}

TEST(Makespan, OfAStalePipelineReachesItsPeriod) {
  const auto cost = [](const Task& task) -> std::int64_t {
    return task.op == Op::segment ? 60 : 0;
  };
  for (int segments = 2; segments <= 5; ++segments) {
    for (const int stride : {1, 2}) {
      for (int age = 0; age <= 1; ++age) {
        const MethodOptions options{.kind = MethodKind::stale,
                                    .num_segments = segments,
                                    .age = age,
                                    .stride = stride};
        std::vector<std::int64_t> times;
        for (const int calls : {60, 180}) {
          const auto method = make_method(options, Schedule(steps(calls)));
          times.push_back(makespan({method.get()}, cost));
        }
        // Fresh segments run one after another, for `stride` steps at once.
        const int segments_a_round = age == 0 ? segments : 1;
        EXPECT_EQ((times[1] - times[0]) * stride, 120 * 60 * segments_a_round);
      }
    }
  }
}

TEST(Makespan, OfAsyncDiffFollowsItsFormula) {
  // W + (T − W) / (S N) evaluations, and the filling of the pipeline.
  const auto cost = [](const Task& task) -> std::int64_t {
    return task.op == Op::segment ? 1 : 0;
  };
  const MethodOptions options{
      .kind = MethodKind::stale, .num_segments = 3, .warmup_steps = 4};
  const auto method = make_method(options, Schedule(steps(50)));
  EXPECT_EQ(makespan({method.get()}, cost), 4 * 3 + (50 - 4) * 1);
}

TEST(Makespan, OfAPipelineWithAsManySamplesAsSegmentsIsFullyUsed) {
  const auto cost = [](const Task& task) -> std::int64_t {
    return task.op == Op::segment ? 1 : 0;
  };
  const Schedule schedule(steps(40));
  std::vector<std::unique_ptr<Method>> owned;
  std::vector<Method*> running;
  for (int i = 0; i < 4; ++i) {
    owned.push_back(make_method(
        {.kind = MethodKind::pipeline, .num_segments = 4}, schedule));
    running.push_back(owned.back().get());
  }
  EXPECT_EQ(makespan({running[0]}, cost), 40 * 4);
  owned[0] =
      make_method({.kind = MethodKind::pipeline, .num_segments = 4}, schedule);
  running[0] = owned[0].get();
  // 4 · 40 evaluations on 4 workers, plus filling and draining.
  EXPECT_EQ(makespan(running, cost), 40 * 4 + 3);
}

}  // namespace
}  // namespace troupe::samplers::testing
