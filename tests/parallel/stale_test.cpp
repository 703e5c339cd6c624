#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "kernels/core/error.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

constexpr std::int64_t kPrime = 1'000'003;

std::int64_t segment_value(int segment, std::int64_t x, int timestep_call) {
  return ((3 + 2 * segment) * x + 7 * timestep_call + 11 * segment) % kPrime;
}

std::int64_t step_value(std::int64_t x, std::int64_t output, int call) {
  return (x + (call + 5) * output) % kPrime;
}

/// Runs a stale method over integers modulo a prime, so that nothing is
/// rounded, delivering results in random order. Returns x after every call.
std::vector<std::int64_t> run_on_integers(const MethodOptions& options,
                                          int calls, std::uint64_t seed) {
  const auto method = make_method(options, Schedule(steps(calls)));
  std::mt19937_64 random(seed);
  std::map<Slot, std::int64_t> slots = {{kInitialSlot, 42}};
  std::vector<std::int64_t> trajectory = {42};
  std::vector<Task> open;
  while (!method->done()) {
    for (Task& task : method->ready(kNothingAhead)) {
      open.push_back(std::move(task));
    }
    std::swap(open[random() % open.size()], open.back());
    const Task task = std::move(open.back());
    open.pop_back();
    const std::int64_t input = slots.at(task.inputs.front());
    const std::int64_t value =
        task.op == Op::segment
            ? segment_value(task.segment, input, task.timestep_call)
            : step_value(input, slots.at(task.inputs.back()), task.from);
    slots[task.outputs.front()] = value;
    if (task.op == Op::step) {
      trajectory.push_back(value);
    }
    const auto dead = method->apply({task.id, task.version, {}});
    for (const Slot slot : dead.value()) {
      slots.erase(slot);
    }
  }
  return trajectory;
}

RC_GTEST_PROP(Stale, FollowsTheDelayDifferenceRecurrence, ()) {
  MethodOptions options{.kind = MethodKind::stale};
  options.num_segments = *rc::gen::inRange(1, 5);
  options.warmup_steps = *rc::gen::inRange(1, 6);
  options.ages = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(options.num_segments - 1),
      rc::gen::inRange(0, 4));
  const int calls = *rc::gen::inRange(6, 30);
  const auto trajectory =
      run_on_integers(options, calls, *rc::gen::arbitrary<std::uint64_t>());
  // y[i][k] = c_i(y[i − 1][k − age], t_k), y[−1][k] = x[k]
  std::vector<std::int64_t> x = {42};
  std::vector<std::vector<std::int64_t>> y(
      static_cast<std::size_t>(options.num_segments));
  for (int k = 0; k < calls; ++k) {
    for (int i = 0; i < options.num_segments; ++i) {
      const auto n = static_cast<std::size_t>(i);
      const int age =
          i == 0 || k < options.warmup_steps ? 0 : options.ages[n - 1];
      const auto at = static_cast<std::size_t>(std::max(0, k - age));
      y[n].push_back(segment_value(i, i == 0 ? x[at] : y[n - 1][at], k));
    }
    x.push_back(step_value(x.back(), y.back().back(), k));
  }
  RC_ASSERT(trajectory == x);
}

TEST(Stale, OfStrideTwoFollowsAsyncDiffsRecurrence) {
  constexpr int kCalls = 21;
  constexpr int kWarmup = 2;
  const auto trajectory = run_on_integers({.kind = MethodKind::stale,
                                           .num_segments = 3,
                                           .stride = 2,
                                           .warmup_steps = kWarmup},
                                          kCalls, 1);
  // As in AsyncDiff's code: caches of the segments, refreshed all at once.
  std::int64_t x = 42;
  std::vector<std::int64_t> cache(3);
  std::vector<std::int64_t> expected = {x};
  std::int64_t next_output = 0;
  for (int k = 0; k < kCalls; ++k) {
    std::int64_t output = 0;
    if (k < kWarmup) {
      std::int64_t hidden = x;
      for (int i = 0; i < 3; ++i) {
        hidden = segment_value(i, hidden, k);
        cache[static_cast<std::size_t>(i)] = hidden;
      }
      output = hidden;
    } else if ((k - kWarmup) % 2 == 0) {
      const int next = std::min(k + 1, kCalls - 1);
      output = segment_value(2, cache[1], k);
      next_output = segment_value(2, cache[1], next);
      cache[1] = segment_value(1, cache[0], next);
      cache[0] = segment_value(0, x, next);
    } else {
      output = next_output;
    }
    x = step_value(x, output, k);
    expected.push_back(x);
  }
  EXPECT_EQ(trajectory, expected);
}

TEST(Stale, ForgetsGarbageInItsCachesAfterTheLargestAge) {
  // Latents and timestep stand still; the warm-up's boundaries are spoilt.
  constexpr int kSegments = 4;
  const auto method =
      make_method({.kind = MethodKind::stale, .num_segments = kSegments},
                  Schedule(steps(20)));
  std::map<Slot, std::int64_t> slots = {{kInitialSlot, 42}};
  std::int64_t expected = 42;
  for (int i = 0; i < kSegments; ++i) {
    expected = segment_value(i, expected, 0);
  }
  int wrong = 0;
  while (!method->done()) {
    for (const Task& task : method->ready(kNothingAhead)) {
      const std::int64_t input = slots.at(task.inputs.front());
      std::int64_t value = input;
      if (task.op == Op::segment) {
        value = segment_value(task.segment, input, 0);
        if (task.from == 0) {
          value += 1 + task.segment;
        }
      } else if (slots.at(task.inputs.back()) != expected) {
        ++wrong;
        EXPECT_LT(task.from, kSegments);
      }
      slots[task.outputs.front()] = value;
      method->apply({task.id, task.version, {}});
    }
  }
  EXPECT_EQ(wrong, kSegments);
}

TEST(Stale, EqualsSequentialAtEveryStepOfANetworkThatIgnoresLatentsAndTime) {
  struct Constant : ToyEvaluator {
    using ToyEvaluator::ToyEvaluator;
    void run_segment(ExecContext& /*ctx*/, int segment,
                     std::span<SegmentRow> rows) override {
      for (SegmentRow& row : rows) {
        row.boundary = {{"h", Tensor::zeros(latent_shape(), DType::f32)}};
        for (float& value : row.boundary[0].tensor.span<float>()) {
          value = 0.25F * static_cast<float>(segment + 1);
        }
        if (segment + 1 == num_segments()) {
          std::ranges::fill(row.output.span<float>(), 0.75F);
        }
      }
    }
  };
  for (const SolverCase& solver : solver_cases(10)) {
    Bench bench(solver.options);
    Constant constant(Shape{1, 3, 5}, 3, learns_variance(solver.options));
    const std::map<int, Tensor> expected = points_of(
        bench, constant, {.kind = MethodKind::pipeline, .num_segments = 3});
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(bench.calls()));
    for (const int stride : {1, 2}) {
      const auto points = points_of(
          bench, constant,
          {.kind = MethodKind::stale, .num_segments = 3, .stride = stride});
      ASSERT_EQ(points.size(), expected.size());
      for (const auto& [call, latents] : points) {
        EXPECT_TRUE(bytes_equal(latents, expected.at(call)))
            << solver.name << ", stride " << stride << ", point " << call;
      }
    }
    for (int parts = 2; parts <= 5; ++parts) {
      const MethodOptions options{.kind = MethodKind::stale,
                                  .num_segments = parts,
                                  .cut = CutShape::onion};
      Constant shells(Shape{1, 3, 5}, num_segments(options),
                      learns_variance(solver.options));
      const auto onion = points_of(bench, shells, options);
      ASSERT_EQ(onion.size(), expected.size());
      for (const auto& [call, latents] : onion) {
        EXPECT_TRUE(bytes_equal(latents, expected.at(call)))
            << solver.name << ", onion of " << parts << ", point " << call;
      }
    }
  }
}

TEST(Stale, StallsBehindALateSegmentInsteadOfReadingOlderValues) {
  // Segment 0 is held back from step 5 on: with age 1 the others may go on to
  // the step after, and then nothing is ready until it comes.
  const auto method = make_method(
      {.kind = MethodKind::stale, .num_segments = 3}, Schedule(steps(12)));
  std::vector<Task> held;
  int highest_last_segment = 0;
  for (std::vector<Task> tasks = method->ready(kNothingAhead); !tasks.empty();
       tasks = method->ready(kNothingAhead)) {
    for (Task& task : tasks) {
      if (task.segment == 0 && task.op == Op::segment && task.from >= 5) {
        held.push_back(std::move(task));
        continue;
      }
      if (task.op == Op::segment && task.segment == 2) {
        highest_last_segment = task.from;
      }
      EXPECT_TRUE(method->apply({task.id, task.version, {}}));
    }
  }
  EXPECT_FALSE(method->done());
  // Segment 1 may take step 5 (reads 4) and segment 2 step 6 (reads 5).
  EXPECT_EQ(highest_last_segment, 6);
  EXPECT_EQ(method->progress().accepted, 7);
  for (const Task& task : held) {
    EXPECT_TRUE(method->apply({task.id, task.version, {}}));
  }
  for (std::vector<Task> tasks = method->ready(kNothingAhead); !tasks.empty();
       tasks = method->ready(kNothingAhead)) {
    for (const Task& task : tasks) {
      EXPECT_TRUE(method->apply({task.id, task.version, {}}));
    }
  }
  EXPECT_TRUE(method->done());
}

TEST(Stale, CountsTheWorkThatSegmentsDid) {
  for (const int stride : {1, 2}) {
    const MethodOptions options{
        .kind = MethodKind::stale, .num_segments = 3, .stride = stride};
    Bench bench(steps(31));
    const auto method = make_method(options, bench.schedule);
    (void)bench.run(*method, options);
    EXPECT_EQ(method->progress().nfe, (bench.evaluator.segment_rows() + 2) / 3);
    EXPECT_LT(method->progress().rounds, 31);
  }
}

/// Alone, again, and interleaved with another sample, task by task.
void expect_kept_apart(const MethodOptions& options, const std::string& what) {
  Bench bench(steps(14, Solver::dpmpp), Shape{1, 3, 5}, num_segments(options));
  bench.evaluator.skip_weight = options.cut == CutShape::onion ? 0.5F : 0.0F;
  const Tensor alone = bench.run(options, 3).latents;
  const Tensor other_alone = bench.run(options, 4).latents;
  EXPECT_FALSE(bytes_equal(alone, other_alone)) << what;
  EXPECT_TRUE(bytes_equal(bench.run(options, 3).latents, alone)) << what;
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  const auto one = make_method(options, bench.schedule);
  const auto other = make_method(options, bench.schedule);
  SlotTable slots;
  SlotTable other_slots;
  slots.put(kInitialSlot, bench.start(3));
  other_slots.put(kInitialSlot, bench.start(4));
  while (!one->done() || !other->done()) {
    std::vector<BoundTask> tasks;
    for (Task& task : one->ready(kNothingAhead)) {
      tasks.push_back({3, std::move(task), &slots});
    }
    for (Task& task : other->ready(kNothingAhead)) {
      tasks.push_back({4, std::move(task), &other_slots});
    }
    const auto results = run_tasks(runner, bench.ctx, tasks);
    for (std::size_t i = 0; i < results.size(); ++i) {
      (tasks[i].slots == &slots ? one : other)->apply(results[i]);
    }
  }
  const auto latents = [](const SlotTable& from, const Method& method) {
    return std::get<SolverState>(from.get(method.result_slot())).latents;
  };
  EXPECT_TRUE(bytes_equal(latents(slots, *one), alone)) << what;
  EXPECT_TRUE(bytes_equal(latents(other_slots, *other), other_alone)) << what;
}

TEST(Stale, KeepsSamplesBackToBackAndInterleavedApart) {
  expect_kept_apart({.kind = MethodKind::stale, .num_segments = 3}, "chain");
  for (int parts = 2; parts <= 5; ++parts) {
    expect_kept_apart({.kind = MethodKind::stale,
                       .num_segments = parts,
                       .cut = CutShape::onion},
                      "onion of " + std::to_string(parts));
  }
}

}  // namespace
}  // namespace troupe::samplers::testing
