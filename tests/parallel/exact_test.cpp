// Every method that claims the sequential answer gives its bytes.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

constexpr int kExactSteps = 12;

class ExactFor : public ::testing::TestWithParam<SolverCase> {
 protected:
  ExactFor() : bench_(GetParam().options) {
    sequential_ = bench_.run({.kind = MethodKind::sequential}, 5).latents;
  }
  void expect_sequential(const MethodOptions& options) {
    EXPECT_TRUE(bytes_equal(bench_.run(options, 5).latents, sequential_));
  }

  Bench bench_;
  Tensor sequential_;
};

TEST_P(ExactFor, SequentialIsAPlainLoopOfEvaluationsAndSteps) {
  SolverState state = bench_.start(5);
  for (int call = 0; call < bench_.calls(); ++call) {
    std::vector<EvaluateRow> rows(1);
    rows[0] = {.sample_index = 5,
               .timestep = bench_.schedule.timestep(call),
               .latents = scale_model_input(bench_.ctx, bench_.schedule, call,
                                            state.latents),
               .output = Tensor(Shape{bench_.evaluator.out_channels(), 3, 5},
                                DType::f32)};
    bench_.evaluator.evaluate(bench_.ctx, rows);
    state = step(bench_.ctx, bench_.schedule, call, call + 1, state,
                 rows[0].output, 5, bench_.noise);
  }
  EXPECT_TRUE(bytes_equal(state.latents, sequential_));
}

TEST_P(ExactFor, TheSolverMovesTheLatents) {
  EXPECT_GT(rmse(sequential_, bench_.start(5).latents), 1e-3);
}

TEST_P(ExactFor, BatchEqualsSequential) {
  expect_sequential({.kind = MethodKind::batch});
}

TEST_P(ExactFor, CfgOnTwoWorkersEqualsSequential) {
  expect_sequential({.kind = MethodKind::cfg});
}

TEST_P(ExactFor, PipelineEqualsSequential) {
  expect_sequential({.kind = MethodKind::pipeline, .num_segments = 3});
}

TEST_P(ExactFor, DraftWithWindowOneEqualsSequential) {
  for (const Anchor anchor : {Anchor::draft, Anchor::fresh}) {
    expect_sequential(
        {.kind = MethodKind::draft, .window_size = 1, .anchor = anchor});
  }
}

TEST_P(ExactFor, TheLastOutputOfChordsAndOfPararealEqualsSequential) {
  for (const int number : {1, 2, 3, 4}) {
    for (const MethodOptions& options :
         {MethodOptions{.kind = MethodKind::chords,
         .window_size = number,
         .num_outputs = number},
          MethodOptions{.kind = MethodKind::parareal,
          .window_size = number,
          .iterations = number}}) {
      if (can_carry(options, bench_.schedule)) {
        expect_sequential(options);
      } else {
        EXPECT_TRUE(bench_.schedule.is_stochastic() ||
                    bench_.calls() != bench_.schedule.num_steps());
      }
    }
  }
}

TEST_P(ExactFor, PicardWithWindowOneEqualsSequentialAtAnyTolerance) {
  for (const double tolerance : {0.0, 0.1}) {
    expect_sequential(
        {.kind = MethodKind::picard, .window_size = 1, .tolerance = tolerance});
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kNthWindow = 4;  // it takes ten times as long there
#else
constexpr int kNthWindow = 1;
#endif

TEST_P(ExactFor, PicardAtToleranceZeroEqualsSequentialForEveryWindow) {
  for (int window = 1; window <= bench_.calls(); window += kNthWindow) {
    for (const Carry carry :
         {Carry::identity, Carry::coefficient, Carry::deviation}) {
      for (const InitialGuess guess :
           {InitialGuess::last_point, InitialGuess::constant_x0,
            InitialGuess::linear_x0, InitialGuess::trajectory}) {
        const MethodOptions options{.kind = MethodKind::picard,
                                    .window_size = window,
                                    .carry = carry,
                                    .initial_guess = guess};
        const auto method = make_method(options, bench_.schedule);
        const Tensor latents = bench_.run(*method, options, 5).latents;
        EXPECT_TRUE(bytes_equal(latents, sequential_)) << window;
        EXPECT_LE(method->progress().rounds, bench_.calls());
      }
    }
  }
}

TEST_P(ExactFor, PicardAtToleranceZeroEqualsSequentialWhenSettled) {
  for (int window = 1; window <= bench_.calls(); window += kNthWindow) {
    const MethodOptions options{.kind = MethodKind::picard,
                                .window_size = window,
                                .carry = Carry::deviation,
                                .initial_guess = InitialGuess::linear_x0,
                                .accept = Accept::settled};
    const auto method = make_method(options, bench_.schedule);
    EXPECT_TRUE(
        bytes_equal(bench_.run(*method, options, 5).latents, sequential_))
        << window;
    EXPECT_LE(method->progress().rounds, bench_.calls());
  }
}

TEST_P(ExactFor, TaaAtToleranceZeroEqualsSequentialForEveryWindow) {
  for (int window = 1; window <= bench_.calls(); window += kNthWindow) {
    const MethodOptions options{.kind = MethodKind::taa,
                                .window_size = window,
                                .carry = Carry::deviation,
                                .memory = 2 + window % 4};
    const auto method = make_method(options, bench_.schedule);
    EXPECT_TRUE(
        bytes_equal(bench_.run(*method, options, 5).latents, sequential_))
        << window;
    EXPECT_LE(method->progress().rounds, bench_.calls());
  }
}

TEST_P(ExactFor, StaleWithAllAgesZeroEqualsSequential) {
  expect_sequential({.kind = MethodKind::stale, .num_segments = 3, .age = 0});
  expect_sequential(
      {.kind = MethodKind::stale, .num_segments = 3, .ages = {0, 0}});
  expect_sequential({.kind = MethodKind::stale,
                     .num_segments = 3,
                     .stale_at = StaleAt::latents,
                     .age = 0});
  expect_sequential({.kind = MethodKind::stale,
                     .num_segments = 3,
                     .stale_at = StaleAt::latents,
                     .warmup_steps = bench_.calls()});
}

TEST_P(ExactFor, StaleWithAllAgesZeroEqualsSequentialForAnyNumberOfSegments) {
  for (int segments = 1; segments <= 5; ++segments) {
    // Another cut is another toy network.
    Bench bench(GetParam().options, Shape{1, 3, 5}, segments);
    const Tensor expected = bench.run({}, 5).latents;
    EXPECT_TRUE(bytes_equal(
        bench
            .run(
                {.kind = MethodKind::stale, .num_segments = segments, .age = 0},
                5)
            .latents,
        expected))
        << segments;
  }
}

TEST_P(ExactFor, AnOnionEqualsSequentialForAnyNumberOfParts) {
  for (int parts = 1; parts <= 5; ++parts) {
    Bench bench(GetParam().options, Shape{1, 3, 5}, 2 * parts - 1);
    bench.evaluator.skip_weight = 0.5F;
    const Tensor expected = bench.run({}, 5).latents;
    const auto expect_equal = [&](MethodOptions options) {
      options.num_segments = parts;
      options.cut = CutShape::onion;
      EXPECT_TRUE(bytes_equal(bench.run(options, 5).latents, expected))
          << options.kind->name << " of " << parts;
    };
    expect_equal({.kind = MethodKind::pipeline});
    expect_equal({.kind = MethodKind::stale, .age = 0});
    expect_equal({.kind = MethodKind::stale, .warmup_steps = bench.calls()});
    expect_equal({.kind = MethodKind::stale,
                  .warmup_steps = 0,
                  .final_fresh_steps = bench.calls()});
  }
}

TEST_P(ExactFor, StaleThatWarmsUpToTheEndEqualsSequential) {
  for (const int stride : {1, 2}) {
    expect_sequential({.kind = MethodKind::stale,
                       .num_segments = 3,
                       .stride = stride,
                       .warmup_steps = bench_.calls()});
  }
}

TEST_P(ExactFor, StaleThatIsFreshToTheEndEqualsSequential) {
  for (const int stride : {1, 2}) {
    expect_sequential({.kind = MethodKind::stale,
                       .num_segments = 3,
                       .stride = stride,
                       .warmup_steps = 0,
                       .final_fresh_steps = bench_.calls()});
  }
}

TEST_P(ExactFor, StalePresetsDifferFromSequential) {
  for (const int stride : {1, 2}) {
    const Tensor latents = bench_
                               .run({.kind = MethodKind::stale,
                                     .num_segments = 3,
                                     .stride = stride},
                                    5)
                               .latents;
    EXPECT_FALSE(bytes_equal(latents, sequential_));
  }
}

TEST_P(ExactFor, TheSameJobTwiceGivesTheSameBytes) {
  const MethodOptions options{.kind = MethodKind::stale,
                              .num_segments = 3,
                              .stride = 2,
                              .warmup_steps = 2,
                              .final_fresh_steps = 1};
  EXPECT_TRUE(bytes_equal(bench_.run(options, 5).latents,
                          bench_.run(options, 5).latents));
}

INSTANTIATE_TEST_SUITE_P(Solvers, ExactFor,
                         ::testing::ValuesIn(solver_cases(kExactSteps)),
                         [](const auto& param) { return param.param.name; });

TEST(SolverCases, HaveAnswersOfTheirOwn) {
  // Otherwise an option would not reach the steps.
  std::vector<Tensor> answers;
  const auto cases = solver_cases(kExactSteps);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    answers.push_back(Bench(cases[i].options).run({}, 5).latents);
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(bytes_equal(answers[i], answers[j]))
          << cases[i].name << " is " << cases[j].name;
    }
  }
}

TEST(Stale, WithOneSegmentEqualsSequential) {
  Bench bench(steps(9), Shape{1, 3, 5}, 1);
  const Tensor expected = bench.run({.kind = MethodKind::sequential}).latents;
  EXPECT_TRUE(bytes_equal(
      bench.run({.kind = MethodKind::stale, .num_segments = 1}).latents,
      expected));
}

TEST(Ddim, WithEtaZeroDoesNotDependOnTheNoiseSeed) {
  Bench bench(steps(8));
  const MethodOptions options{.kind = MethodKind::picard, .window_size = 4};
  const SolverState start = bench.start(0);
  std::vector<Tensor> results;
  for (const std::uint64_t seed : {1U, 2U}) {
    ToyNoise noise(seed);
    TaskRunner runner(bench.schedule, bench.evaluator, noise, options);
    const auto method = make_method(options, bench.schedule);
    results.push_back(run_local(*method, runner, bench.ctx, 0, start).latents);
  }
  EXPECT_TRUE(bytes_equal(results[0], results[1]));
}

}  // namespace
}  // namespace troupe::samplers::testing
