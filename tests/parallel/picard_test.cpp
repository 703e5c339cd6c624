#include "samplers/parallel/picard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "kernels/core/error.h"
#include "tests/parallel/picard_rounds.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

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

TEST(Picard, HasExactPointsUpToKAfterKSweeps) {
  for (const SolverCase& solver : solver_cases(11)) {
    Bench bench(solver.options);
    const std::vector<Tensor> exact = exact_points(bench, bench.evaluator);
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

TEST(Picard, HasExactPointsUpToKWhateverTheInitialGuess) {
  // The first sweep of this guess solves point 1 and guesses the others: those
  // are replaced with garbage, another for every point.
  for (const SolverCase& solver : solver_cases(9)) {
    Bench bench(solver.options);
    const std::vector<Tensor> exact = exact_points(bench, bench.evaluator);
    for (const Carry carry : {Carry::identity, Carry::coefficient}) {
      MethodOptions options =
          picard(bench.calls(), 0, InitialGuess::constant_x0);
      options.carry = carry;
      int last_sweep = 0;
      run_rounds(
          bench, options, bench.start(0),
          [&](int sweeps, const Task& sweep, SlotTable& slots) {
            for (std::size_t i = 1; sweeps == 1 && i < sweep.outputs.size();
                 ++i) {
              SolverState garbage;
              garbage.latents = Tensor(Shape{1, 3, 5}, DType::f32);
              ToyNoise(77).step(0, static_cast<int>(i), garbage.latents);
              slots.put(sweep.outputs[i], garbage);
            }
            for (int point = sweep.from + 1;
                 point <= std::min(sweeps, sweep.to); ++point) {
              const Slot slot =
                  sweep.outputs[static_cast<std::size_t>(point - sweep.from) -
                                1];
              EXPECT_TRUE(
                  bytes_equal(std::get<SolverState>(slots.get(slot)).latents,
                              exact[static_cast<std::size_t>(point) - 1]))
                  << solver.name << " point " << point;
            }
            last_sweep = sweeps;
          });
      EXPECT_GT(last_sweep, 1) << solver.name;
      EXPECT_LE(last_sweep, bench.calls()) << solver.name;
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

double correlation(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.span<float>().size(); ++i) {
    sum += static_cast<double>(a.span<float>()[i]) *
           static_cast<double>(b.span<float>()[i]);
  }
  return sum / static_cast<double>(a.num_elements());
}

/// Passes the noise of a job on and keeps every draw.
class KeptNoise final : public NoiseSource {
 public:
  void initial(std::uint64_t sample_index, Tensor& out) override {
    inner_.initial(sample_index, out);
  }
  void step(std::uint64_t sample_index, int call, Tensor& out) override {
    inner_.step(sample_index, call, out);
    const auto at = std::pair(sample_index, call);
    const auto [place, is_new] = draws.emplace(at, out.clone());
    EXPECT_TRUE(is_new || bytes_equal(place->second, out));
  }
  std::map<std::pair<std::uint64_t, int>, Tensor> draws;

 private:
  PhiloxNoise inner_{5};
};

TEST(Picard, DrawsTheNoiseOfTheSequentialRunInEverySweep) {
  Bench bench(steps(12, Solver::ddpm), Shape{1, 16, 16});
  const auto run = [&](const MethodOptions& options, KeptNoise& noise) {
    TaskRunner runner(bench.schedule, bench.evaluator, noise, options);
    for (const std::uint64_t sample : {0U, 7U}) {
      const auto method = make_method(options, bench.schedule);
      (void)run_local(*method, runner, bench.ctx, sample, bench.start(0));
    }
  };
  KeptNoise sequential;
  run({}, sequential);
  ASSERT_EQ(sequential.draws.size(), 2U * 11U);  // the last step adds none
  for (const int window : {1, 5, 12}) {
    KeptNoise parallel;
    run(picard(window), parallel);
    ASSERT_EQ(parallel.draws.size(), sequential.draws.size());
    for (const auto& [key, noise] : parallel.draws) {
      EXPECT_TRUE(bytes_equal(noise, sequential.draws.at(key)));
    }
  }
  // 256 independent products: deviation 1/16, so this is four of them.
  for (auto a = sequential.draws.begin(); a != sequential.draws.end(); ++a) {
    for (auto b = std::next(a); b != sequential.draws.end(); ++b) {
      EXPECT_LT(std::fabs(correlation(a->second, b->second)), 0.25);
    }
  }
}

TEST(Picard, GivesSamplesOfOneStartDifferentResultsByTheirNoise) {
  Bench bench(steps(20, Solver::ddpm));
  const MethodOptions options = picard(4);
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  std::vector<Tensor> results;
  for (const std::uint64_t sample : {0U, 7U}) {  // one condition: 7 is 0 mod 7
    const auto method = make_method(options, bench.schedule);
    results.push_back(
        run_local(*method, runner, bench.ctx, sample, bench.start(0)).latents);
  }
  EXPECT_FALSE(bytes_equal(results[0], results[1]));
}

}  // namespace
}  // namespace troupe::samplers::testing
