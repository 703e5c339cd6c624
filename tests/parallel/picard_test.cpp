#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "kernels/core/error.h"
#include "samplers/parallel/method.h"
#include "tests/parallel/picard_rounds.h"
#include "tests/parallel/run_local.h"
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
      // Neighbouring calls of Heun and PNDM may have one timestep, and at first
      // one guess.
      const auto timesteps = bench.schedule.timesteps();
      const bool repeats =
          std::ranges::adjacent_find(timesteps) != timesteps.end();
      EXPECT_LE(bench.evaluator.largest_repeat(), repeats ? 2 : 1)
          << solver.name;
    }
  }
}

TEST(Picard, HasExactPointsUpToKAfterKSweeps) {
  for (const SolverCase& solver : solver_cases(11)) {
    Bench bench(solver.options);
    for (const Carry carry :
         {Carry::identity, Carry::coefficient, Carry::deviation}) {
      expect_exact_after_sweeps(bench, bench.evaluator,
                                InitialGuess::last_point, carry, solver.name);
    }
  }
}

TEST(Picard, HasExactPointsUpToKWhateverTheInitialGuess) {
  for (const SolverCase& solver : solver_cases(9)) {
    Bench bench(solver.options);
    for (const Carry carry :
         {Carry::identity, Carry::coefficient, Carry::deviation}) {
      expect_exact_after_sweeps(bench, bench.evaluator,
                                InitialGuess::constant_x0, carry, solver.name);
    }
  }
}

TEST(Picard, KeepsAnExactTrajectoryAsItIs) {
  for (const SolverCase& solver : solver_cases(8)) {
    Bench bench(solver.options);
    expect_exact_is_kept(bench, bench.evaluator, solver.name);
  }
}

/// The latents of all points of the sequential run.
std::vector<Tensor> trajectory_of(Bench& bench, std::uint64_t sample) {
  SolverState state = bench.start(sample);
  std::vector<Tensor> points = {state.latents};
  const MethodOptions options = picard(1);
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  SlotTable slots;
  const auto method = make_method(options, bench.schedule);
  slots.put(kInitialSlot, std::move(state));
  while (!method->done()) {
    for (Task& task : method->ready(kNothingAhead)) {
      const std::vector<BoundTask> one = {{sample, std::move(task), &slots}};
      const auto results = run_tasks(runner, bench.ctx, one);
      if (const auto point = point_of(one.front().task)) {
        points.push_back(std::get<SolverState>(slots.get(*point)).latents);
      }
      (void)method->apply(results.front());
    }
  }
  return points;
}

std::vector<MethodOptions> warm_starts(int window) {
  const MethodOptions alone = picard(window, 0, InitialGuess::trajectory);
  MethodOptions mixing = alone;
  mixing.kind = MethodKind::taa;
  return {alone, mixing};
}

TEST(WarmStart, FromTheOwnTrajectoryChangesNoPoint) {
  for (const SolverCase& solver : solver_cases(11)) {
    Bench bench(solver.options);
    const Tensor expected = bench.run({}, 3).latents;
    bench.noise.trajectory = trajectory_of(bench, 3);
    for (const int window : {1, 4, bench.calls()}) {
      for (const MethodOptions& options : warm_starts(window)) {
        const auto method = make_method(options, bench.schedule);
        const auto before = bench.evaluator.rows();
        EXPECT_TRUE(
            bytes_equal(bench.run(*method, options, 3).latents, expected))
            << solver.name;
        // No point is evaluated twice, and each round passes as a whole.
        EXPECT_EQ(bench.evaluator.rows() - before, bench.calls());
        EXPECT_EQ(method->progress().nfe, bench.calls());
        EXPECT_EQ(method->progress().rounds,
                  (bench.calls() + window - 1) / window)
            << solver.name;
      }
    }
  }
}

TEST(WarmStart, FromANeighbourGivesTheBytesOfAColdStart) {
  for (const SolverCase& solver : solver_cases(11)) {
    Bench bench(solver.options);
    const Tensor expected = bench.run({}, 3).latents;
    for (const std::uint64_t neighbour : {4U, 10U}) {  // 10: one condition
      bench.noise.trajectory = trajectory_of(bench, neighbour);
      for (const int window : {2, 5, bench.calls()}) {
        for (const MethodOptions& options : warm_starts(window)) {
          EXPECT_TRUE(bytes_equal(bench.run(options, 3).latents, expected))
              << solver.name;
        }
      }
    }
  }
}

TEST(WarmStart, FromANearbyTrajectoryTakesFewerRoundsThanACopiedPoint) {
  Bench bench(steps(40));
  bench.noise.trajectory = trajectory_of(bench, 3);
  bench.evaluator.strength[3] = 1.05F;  // as an edited prompt
  const auto rounds = [&](InitialGuess guess) {
    const MethodOptions options = picard(8, 0.05, guess);
    const auto method = make_method(options, bench.schedule);
    (void)bench.run(*method, options, 3);
    return method->progress().rounds;
  };
  EXPECT_LT(rounds(InitialGuess::trajectory), rounds(InitialGuess::last_point));
}

TEST(WarmStart, NeedsATrajectory) {
  class NoTrajectory : public ToyNoise {
   public:
    void guess(std::uint64_t sample, int point, Tensor& out) override {
      NoiseSource::guess(sample, point, out);
    }
  };
  Bench bench(steps(6));
  NoTrajectory noise;
  const MethodOptions options = picard(3, 0, InitialGuess::trajectory);
  TaskRunner runner(bench.schedule, bench.evaluator, noise, options);
  const auto method = make_method(options, bench.schedule);
  try {
    (void)run_local(*method, runner, bench.ctx, 0, bench.start(0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::internal);
  }
}

TEST(Picard, ComesCloserAsTheToleranceFalls) {
  double total_before = std::numeric_limits<double>::infinity();
  for (const double tolerance : {0.3, 0.1, 0.03, 0.01, 0.0}) {
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
       {InitialGuess::last_point, InitialGuess::constant_x0,
        InitialGuess::linear_x0}) {
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
      for (Task& task : methods[i]->ready(kNothingAhead)) {
        tasks.push_back({i, std::move(task), &slots[i]});
      }
    }
    const auto results = run_tasks(runner, bench.ctx, tasks);
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
  double uniform(std::uint64_t sample_index, int call) override {
    return inner_.uniform(sample_index, call);
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
