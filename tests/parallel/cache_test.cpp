// The modifier +cache: which cache each evaluation reads, and what follows.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "samplers/parallel/plan.h"
#include "tests/parallel/support.h"

namespace troupe::samplers {
namespace {

using testing::Bench;
using testing::steps;

constexpr double kAlways = std::numeric_limits<double>::max();

MethodOptions cached(MethodOptions options, double threshold) {
  options.kind = options.kind.with(Modifier::cache);
  options.cache_threshold = threshold;
  return options;
}

std::vector<MethodOptions> plain_methods() {
  return {
      {.kind = MethodKind::sequential},
      {.kind = MethodKind::batch},
      {.kind = MethodKind::draft, .window_size = 3},
      {.kind = MethodKind::draft, .window_size = 4, .warmup_steps = 3},
      {.kind = MethodKind::draft, .window_size = 3, .anchor = Anchor::fresh}};
}

std::vector<MethodOptions> windows_of_picard() {
  return {testing::picard(4),
          {.kind = MethodKind::picard,
           .window_size = 5,
           .tolerance = 0.02,
           .carry = Carry::deviation,
           .initial_guess = InitialGuess::linear_x0,
           .accept = Accept::settled}};
}

/// The call whose evaluation left the cache that the evaluation of each call
/// reads; −1: it reads none.
std::map<int, int> sources(const MethodOptions& options, int num_calls) {
  const Plan plan(options, num_calls);
  std::map<int, int> sources;
  for (int i = 0; i < plan.size(); ++i) {
    const Task& task = plan.task(i);
    if (task.op->work == Work::network) {
      const bool reads = task.inputs.size() > 1;
      sources[task.from] =
          reads ? plan.task(plan.maker_of(task.inputs[1])).from : -1;
      EXPECT_EQ(task.op == Op::evaluate, task.from + 1 == num_calls);
    }
  }
  return sources;
}

TEST(Cache, OfSequentialIsThatOfTheCallBefore) {
  EXPECT_EQ(sources(cached({}, 0.1), 5),
            (std::map<int, int>{{0, -1}, {1, 0}, {2, 1}, {3, 2}, {4, -1}}));
  EXPECT_EQ(sources(cached({}, 0.1), 1), (std::map<int, int>{{0, -1}}));
}

// Points of a window are evaluated at once, so none can read another's.
TEST(Cache, OfADraftIsThatOfItsAnchor) {
  EXPECT_EQ(
      sources(cached({.kind = MethodKind::draft, .window_size = 3}, 0.1), 9),
      (std::map<int, int>{{0, -1},
                          {1, 0},
                          {2, 0},
                          {3, 0},
                          {4, 3},
                          {5, 3},
                          {6, 3},
                          {7, 6},
                          {8, -1}}));
  EXPECT_EQ(sources(cached({.kind = MethodKind::draft,
                            .window_size = 2,
                            .anchor = Anchor::fresh},
                           0.1),
                    7),
            (std::map<int, int>{
                {0, -1}, {1, 0}, {2, 0}, {3, 2}, {4, 3}, {5, 3}, {6, -1}}));
}

TEST(Cache, OfThresholdZeroGivesTheBytesOfTheMethodWithout) {
  std::vector<MethodOptions> methods = plain_methods();
  std::ranges::move(windows_of_picard(), std::back_inserter(methods));
  for (const auto& [name, solver] : testing::solver_cases(9)) {
    for (const MethodOptions& plain : methods) {
      Bench bench(solver);
      if (!testing::can_carry(plain, bench.schedule)) {
        continue;
      }
      const auto method = make_method(cached(plain, 0), bench.schedule);
      const Tensor latents = bench.run(*method, cached(plain, 0)).latents;
      EXPECT_TRUE(bytes_equal(latents, bench.run(plain).latents))
          << name << ", " << plain.kind->name;
      EXPECT_EQ(method->progress().reused, 0);
      EXPECT_FALSE(approximates(cached({}, 0)));
    }
  }
}

// By a loop over the model's calls: the cache of the newest call that computed
// all, until the distance is too great.
TEST(Cache, OfSequentialGivesTheBytesOfALoop) {
  for (const double threshold : {0.02, 0.1, 0.4, kAlways}) {
    Bench bench(steps(20));
    SolverState state = bench.start(3);
    Boundary cache;
    std::int64_t reused = 0;
    for (int call = 0; call < bench.calls(); ++call) {
      std::vector<CachedRow> rows(1);
      rows[0].sample_index = 3;
      rows[0].timestep = bench.schedule.timestep(call);
      rows[0].latents =
          scale_model_input(bench.ctx, bench.schedule, call, state.latents);
      rows[0].output = Tensor(state.latents.shape(), DType::f32);
      rows[0].threshold = call + 1 < bench.calls() ? threshold : 0;
      rows[0].cache = cache;
      bench.evaluator.evaluate_cached(bench.ctx, rows);
      reused += rows[0].is_reused ? 1 : 0;
      cache = rows[0].cache;
      state = step(bench.ctx, bench.schedule, call, call + 1, state,
                   rows[0].output, 3, bench.noise);
    }
    const MethodOptions options = cached({}, threshold);
    const auto method = make_method(options, bench.schedule);
    EXPECT_TRUE(
        bytes_equal(bench.run(*method, options, 3).latents, state.latents))
        << threshold;
    EXPECT_EQ(method->progress().reused, reused) << threshold;
    EXPECT_EQ(method->progress().nfe, 20);
    if (threshold == kAlways) {
      EXPECT_EQ(reused, 18) << "all but the first and the last";
    }
    EXPECT_TRUE(approximates(options));
  }
}

TEST(Cache, OfBatchGivesTheBytesOfSequential) {
  Bench bench(steps(12));
  const Tensor one = bench.run(cached({}, 0.2), 5).latents;
  const Tensor other =
      bench.run(cached({.kind = MethodKind::batch}, 0.2), 5).latents;
  EXPECT_TRUE(bytes_equal(one, other));
  EXPECT_FALSE(bytes_equal(one, bench.run({}, 5).latents));
}

TEST(Cache, IsReusedLessTheSmallerTheThreshold) {
  for (const MethodOptions& plain : plain_methods()) {
    Bench bench(steps(30));
    std::int64_t most = bench.calls();
    for (const double threshold : {kAlways, 0.2, 0.05, 0.0}) {
      const MethodOptions options = cached(plain, threshold);
      const auto method = make_method(options, bench.schedule);
      (void)bench.run(*method, options);
      const std::int64_t reused = method->progress().reused;
      EXPECT_LE(reused, most) << plain.kind->name;
      most = reused;
    }
    EXPECT_EQ(most, 0);
  }
}

/// Runs the options, and returns the calls whose evaluation left the cache that
/// evaluations of each call read, in their order; −1: none.
std::map<int, std::vector<int>> sources_of_run(const MethodOptions& options,
                                               int steps_of_run) {
  Bench bench(steps(steps_of_run));
  const auto method = make_method(options, bench.schedule);
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  SlotTable slots;
  slots.put(kInitialSlot, bench.start(0));
  std::map<Slot, int> makers;
  std::map<int, std::vector<int>> sources;
  while (!method->done()) {
    for (const Task& task : method->ready(kNothingAhead)) {
      if (task.op->work == Work::network) {
        const bool reads = task.inputs.size() > 1;
        sources[task.from].push_back(reads ? makers.at(task.inputs[1]) : -1);
        if (task.outputs.size() > 1) {
          makers[task.outputs[1]] = task.from;
        }
      }
      const auto queued = runner.queue(bench.ctx, {{0, task, &slots}});
      for (const TaskResult& result : runner.finish(*queued)) {
        if (const auto dead = method->apply(result)) {
          slots.erase(*dead);
        }
      }
    }
  }
  EXPECT_LE(slots.size(), 2U) << "values are left";
  return sources;
}

// A point's own of the round before; else that of the round's first point,
// which is final.
TEST(Cache, OfAPointIsItsLastOneOrThatOfAFinalPoint) {
  for (const MethodOptions& plain : windows_of_picard()) {
    const auto sources = sources_of_run(cached(plain, 0.05), 20);
    ASSERT_EQ(sources.size(), 20U);
    EXPECT_EQ(sources.at(0), std::vector{-1});
    for (const auto& [call, from] : sources) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (call == 19) {
          EXPECT_EQ(from[i], -1) << "the last call";
        } else if (i > 0) {
          EXPECT_EQ(from[i], call);
        } else {
          EXPECT_LT(from[i], std::max(call, 1));
          EXPECT_GE(from[i], std::max(-1, call - 2 * plain.window_size));
        }
      }
    }
    EXPECT_GT(sources.at(10).size(), 1U) << "it is evaluated again";
    EXPECT_GE(sources.at(10).front(), 0) << "it reads one of a final point";
  }
}

TEST(Cache, IsOneValueOfASampleOrTwo) {
  for (const MethodOptions& plain : plain_methods()) {
    EXPECT_EQ(most_live(plain, 20, kNothingAhead).caches, 0);
    const int caches = most_live(cached(plain, 0.1), 20, kNothingAhead).caches;
    EXPECT_GE(caches, 1) << plain.kind->name;
    EXPECT_LE(caches, 3) << plain.kind->name;
  }
}

TEST(Cache, NamesItselfBehindTheMethod) {
  EXPECT_EQ(to_string(MethodKind::draft.with(Modifier::cache)), "draft+cache");
  EXPECT_EQ(to_string(MethodKind::draft), "draft");
  EXPECT_NE(MethodKind::draft, MethodKind::draft.with(Modifier::cache));
  EXPECT_TRUE(MethodKind::draft.with(Modifier::cache).takes("cache-threshold"));
  EXPECT_FALSE(MethodKind::draft.takes("cache-threshold"));
}

}  // namespace
}  // namespace troupe::samplers
