#include "samplers/parallel/picard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/core/error.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

using Window = std::pair<int, int>;

MethodOptions picard(int window, double tolerance = 0,
                     InitialGuess guess = InitialGuess::last_point) {
  return {.kind = MethodKind::picard,
          .window_size = window,
          .tolerance = tolerance,
          .initial_guess = guess};
}

/// Plays residuals instead of arithmetic: residuals[point] is what every sweep
/// reports for that point, falling by `factor` each time. Returns the windows.
class Script {
 public:
  Script(const MethodOptions& options, int calls) : method_(options, calls) {}

  /// One round; residual of the value given to each point of (begin, end].
  void round(const std::vector<double>& residuals, bool same_bytes = false) {
    windows.emplace_back(method_.begin(), method_.end());
    std::vector<Task> tasks = method_.ready();
    while (tasks.front().op == Op::evaluate) {
      evaluations.push_back(static_cast<int>(tasks.size()));
      for (const Task& task : tasks) {
        evaluated.push_back(task.from);
        method_.apply({task.id, task.version, {}});
      }
      tasks = method_.ready();
    }
    TaskResult result{tasks.front().id, tasks.front().version, {}};
    ASSERT_EQ(residuals.size(),
              static_cast<std::size_t>(method_.end() - method_.begin()));
    for (const double residual : residuals) {
      result.scalars.push_back(residual);
      result.scalars.push_back(same_bytes || residual == 0 ? 1 : 0);
    }
    method_.apply(result);
  }
  [[nodiscard]] Window window() const {
    return {method_.begin(), method_.end()};
  }
  [[nodiscard]] bool done() const { return method_.done(); }
  [[nodiscard]] Progress progress() const { return method_.progress(); }

  std::vector<Window> windows;
  std::vector<int> evaluations;
  std::vector<int> evaluated;

 private:
  Picard method_;
};

TEST(PicardAccepts, TheWholeWindowWhenAllPointsPass) {
  Script script(picard(4, 0.1), 10);
  script.round({0.05, 0.1, 0.02, 0.1});
  EXPECT_EQ(script.window(), (Window{4, 8}));
  script.round({0.05, 0.1, 0.02, 0.1});
  EXPECT_EQ(script.window(), (Window{8, 10}));
  script.round({0.05, 0.1});
  EXPECT_TRUE(script.done());
}

TEST(PicardAccepts, OnePointWhenTheFirstFails) {
  Script script(picard(4, 0.1), 10);
  script.round({0.2, 0.05, 0.05, 0.05});
  EXPECT_EQ(script.window(), (Window{1, 5}));
}

TEST(PicardAccepts, UpToAndWithTheFirstPointThatFails) {
  Script script(picard(4, 0.1), 10);
  script.round({0.05, 0.05, 0.11, 0.05});
  EXPECT_EQ(script.window(), (Window{3, 7}));
}

TEST(PicardAccepts, TheWholeWindowWhenOnlyTheLastFails) {
  Script script(picard(4, 0.1), 10);
  script.round({0.05, 0.05, 0.05, 9.0});
  EXPECT_EQ(script.window(), (Window{4, 8}));
}

TEST(PicardAccepts, ATailShorterThanTheWindow) {
  Script script(picard(4, 0.1), 6);
  script.round({0.05, 0.05, 0.05, 0.05});
  EXPECT_EQ(script.window(), (Window{4, 6}));
  script.round({0.2, 0.2});
  EXPECT_EQ(script.window(), (Window{5, 6}));
  script.round({0.2});
  EXPECT_TRUE(script.done());
  EXPECT_EQ(script.progress().rounds, 3);
}

TEST(PicardAccepts, ASingleCall) {
  Script script(picard(1, 0.1), 1);
  script.round({7.0});
  EXPECT_TRUE(script.done());
}

TEST(PicardAccepts, OnlyEqualBytesAtToleranceZero) {
  Script script(picard(3), 9);
  script.round({0.0, 1e-300, 0.0});
  EXPECT_EQ(script.window(), (Window{2, 5}));
}

TEST(PicardAccepts, EqualBytesWhateverTheResidual) {
  Script script(picard(3, 0.1), 9);
  script.round({5.0, 5.0, 5.0}, true);
  EXPECT_EQ(script.window(), (Window{3, 6}));
}

TEST(PicardAccepts, NoResidualThatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    for (const double tolerance : {0.0, 0.1}) {
      Script script(picard(3, tolerance), 9);
      try {
        script.round({0.01, 0.01, bad});
        FAIL() << "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::non_finite);
        EXPECT_NE(std::string(error.what()).find("point 3"), std::string::npos);
      }
    }
  }
}

TEST(PicardEvaluates, OnlyPointsWhoseBytesChanged) {
  Script script(picard(4, 0.1), 10);
  script.round({0.2, 0.0, 0.05, 0.0});  // 2 and 4 stayed; 4 is new all the same
  EXPECT_EQ(script.window(), (Window{1, 5}));
  script.round({0.0, 0.0, 0.0, 0.0});
  EXPECT_EQ(script.evaluated,
            (std::vector<int>{0, 1, 2, 3, /*round 2*/ 1, 3, 4}));
}

TEST(PicardEvaluates, OnePointFirstForTheConstantX0Guess) {
  Script script(picard(4, 0.1, InitialGuess::constant_x0), 10);
  script.round({0.5});
  EXPECT_EQ(script.window(), (Window{1, 5}));
  EXPECT_EQ(script.evaluations, std::vector<int>{1});
}

TEST(Picard, CountsEveryCallItMakesAndMakesNoneTwice) {
  for (const SolverCase& solver : solver_cases(14)) {
    for (const double tolerance : {0.0, 0.05}) {
      const MethodOptions options = picard(5, tolerance);
      Bench bench(solver.options);
      const auto method = make_method(options, bench.schedule);
      (void)bench.run(*method, options);
      EXPECT_EQ(method->progress().nfe, bench.evaluator.rows());
      EXPECT_EQ(bench.evaluator.forwards(), method->progress().rounds);
      // The second stage of a Heun step and the first of the next have one
      // timestep, and at first one guess.
      const bool heun = solver.options.solver == Solver::heun;
      EXPECT_LE(bench.evaluator.largest_repeat(), heun ? 2 : 1) << solver.name;
    }
  }
}

/// Runs round by round and shows every point of the window after each sweep.
template <typename Visit>
void run_rounds(Bench& bench, const MethodOptions& options, SolverState start,
                const Visit& visit) {
  Picard method(options, bench.calls());
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  SlotTable slots;
  slots.put(kInitialSlot, std::move(start));
  for (int sweeps = 0; !method.done();) {
    std::vector<BoundTask> tasks;
    for (Task& task : method.ready()) {
      tasks.push_back({0, std::move(task), &slots});
    }
    const auto results = runner.run(bench.ctx, tasks);
    for (const TaskResult& result : results) {
      method.apply(result);
    }
    if (tasks.front().task.op == Op::sweep) {
      visit(++sweeps, tasks.front().task, slots);
    }
  }
}

TEST(Picard, HasExactPointsUpToKAfterKSweeps) {
  for (const SolverCase& solver : solver_cases(11)) {
    Bench bench(solver.options);
    std::vector<Tensor> exact;  // of every point
    run_rounds(
        bench, picard(1), bench.start(0),
        [&](int /*sweeps*/, const Task& sweep, SlotTable& slots) {
          exact.push_back(
              std::get<SolverState>(slots.get(sweep.outputs[0])).latents);
        });
    for (const Carry carry : {Carry::identity, Carry::coefficient}) {
      MethodOptions options = picard(bench.calls());
      options.carry = carry;
      run_rounds(bench, options, bench.start(0),
                 [&](int sweeps, const Task& sweep, SlotTable& slots) {
                   for (int point = sweep.from + 1; point <= sweeps; ++point) {
                     const auto slot = sweep.outputs[static_cast<std::size_t>(
                         point - sweep.from - 1)];
                     EXPECT_TRUE(bytes_equal(
                         std::get<SolverState>(slots.get(slot)).latents,
                         exact[static_cast<std::size_t>(point - 1)]))
                         << solver.name << " point " << point;
                   }
                 });
    }
  }
}

TEST(Picard, KeepsAnExactTrajectoryAsItIs) {
  // A sweep from the exact trajectory changes no byte, whatever it carries.
  for (const SolverCase& solver : solver_cases(8)) {
    Bench bench(solver.options);
    std::vector<SolverState> points = {bench.start(0)};
    std::vector<Tensor> outputs;
    run_rounds(
        bench, picard(1), bench.start(0),
        [&](int /*sweeps*/, const Task& sweep, SlotTable& slots) {
          outputs.push_back(std::get<Tensor>(slots.get(sweep.inputs.back())));
          points.push_back(std::get<SolverState>(slots.get(sweep.outputs[0])));
        });
    for (const Carry carry : {Carry::identity, Carry::coefficient}) {
      MethodOptions options = picard(bench.calls());
      options.carry = carry;
      TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
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
      const auto results = runner.run(bench.ctx, tasks);
      for (int i = 0; i < bench.calls(); ++i) {
        const auto n = static_cast<std::size_t>(i);
        EXPECT_EQ(results[0].scalars[2 * n], 0.0);
        EXPECT_EQ(results[0].scalars[2 * n + 1], 1.0);
        EXPECT_TRUE(bytes_equal(
            std::get<SolverState>(slots.get(sweep.outputs[n])).latents,
            points[n + 1].latents));
      }
    }
  }
}

/// A network whose output is a constant, so that a step is affine in the
/// latents with slope carry_coefficient.
struct ConstantOutput : ToyEvaluator {
  using ToyEvaluator::ToyEvaluator;
  void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
    ToyEvaluator::evaluate(ctx, rows);
    for (EvaluateRow& row : rows) {
      for (float& value : row.output.span<float>()) {
        value = 0.125F;
      }
    }
  }
};

std::int64_t rounds_with(Carry carry, double tolerance) {
  Bench bench(steps(20));
  ConstantOutput network(Shape{1, 3, 5}, 3);
  MethodOptions options = picard(20, tolerance);
  options.carry = carry;
  TaskRunner runner(bench.schedule, network, bench.noise, options);
  const auto method = make_method(options, bench.schedule);
  (void)run_local(*method, runner, bench.ctx, 0, bench.start(0));
  return method->progress().rounds;
}

TEST(Picard, SolvesALinearChainInOneSweepWithTheStepsOwnCoefficient) {
  // One sweep that solves it, one that finds nothing left to change but f32's
  // rounding.
  EXPECT_EQ(rounds_with(Carry::coefficient, 3e-3), 2);
  EXPECT_GT(rounds_with(Carry::identity, 3e-3), 2);
}

TEST(Picard, ComesCloserAsTheToleranceFalls) {
  double total_before = std::numeric_limits<double>::infinity();
  for (const double tolerance : {1.0, 0.3, 0.03, 0.003, 0.0}) {
    double total = 0;
    for (std::uint64_t sample = 0; sample < 6; ++sample) {
      Bench bench(steps(30));
      total +=
          rmse(bench.run(picard(8, tolerance), sample).latents,
               bench.run({.kind = MethodKind::sequential}, sample).latents);
    }
    EXPECT_LE(total, total_before) << tolerance;
    total_before = total;
  }
  EXPECT_EQ(total_before, 0.0);
}

TEST(Picard, TakesFewerRoundsThanCallsWithATolerance) {
  for (const InitialGuess guess :
       {InitialGuess::last_point, InitialGuess::constant_x0}) {
    Bench bench(steps(40));
    const MethodOptions options = picard(8, 0.1, guess);
    const auto method = make_method(options, bench.schedule);
    (void)bench.run(*method, options);
    EXPECT_LT(method->progress().rounds, 40);
  }
}

TEST(Picard, RetiresEasySamplesEarlier) {
  const MethodOptions options = picard(8, 0.02);
  std::vector<Progress> progress;
  std::vector<Tensor> alone;
  Bench bench(steps(30));
  bench.evaluator.strength[0] = 0.01F;
  bench.evaluator.strength[1] = 3.0F;
  for (std::uint64_t sample = 0; sample < 2; ++sample) {
    const auto method = make_method(options, bench.schedule);
    alone.push_back(bench.run(*method, options, sample).latents);
    progress.push_back(method->progress());
  }
  EXPECT_LT(progress[0].nfe, progress[1].nfe);
  // In one batch with the hard sample the easy one keeps bytes and savings.
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  std::vector<std::unique_ptr<Method>> methods;
  std::vector<SlotTable> slots(2);
  for (std::size_t i = 0; i < 2; ++i) {
    methods.push_back(make_method(options, bench.schedule));
    slots[i].put(kInitialSlot, bench.start(i));
  }
  while (!methods[0]->done() || !methods[1]->done()) {
    std::vector<BoundTask> tasks;
    for (std::size_t i = 0; i < 2; ++i) {
      for (Task& task : methods[i]->ready()) {
        tasks.push_back({i, std::move(task), &slots[i]});
      }
    }
    const auto results = runner.run(bench.ctx, tasks);
    for (std::size_t i = 0; i < results.size(); ++i) {
      methods[tasks[i].sample_index]->apply(results[i]);
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(methods[i]->progress().nfe, progress[i].nfe);
    EXPECT_TRUE(bytes_equal(
        std::get<SolverState>(slots[i].get(methods[i]->result_slot())).latents,
        alone[i]));
  }
}

TEST(Picard, OfSamplesDoesNotShareNoise) {
  // Identical starts and conditions: only the noise of the steps differs.
  Bench bench(steps(20, Solver::ddpm), Shape{1, 16, 16});
  const MethodOptions options = picard(4);
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  std::vector<Tensor> noise;
  for (const std::uint64_t sample : {0U, 7U}) {
    Tensor out(Shape{1, 16, 16}, DType::f32);
    bench.noise.step(sample, 3, out);
    noise.push_back(std::move(out));
  }
  double correlation = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    correlation += static_cast<double>(noise[0].span<float>()[i]) *
                   static_cast<double>(noise[1].span<float>()[i]) / 256;
  }
  EXPECT_LT(std::fabs(correlation), 0.25);
  std::vector<Tensor> results;
  for (const std::uint64_t sample : {0U, 7U}) {
    const auto method = make_method(options, bench.schedule);
    results.push_back(
        run_local(*method, runner, bench.ctx, sample, bench.start(0)).latents);
  }
  EXPECT_FALSE(bytes_equal(results[0], results[1]));
}

}  // namespace
}  // namespace troupe::samplers::testing
