// What each task of a stale pipeline reads: chains and onions. What runs
// compute is in stale_test.cpp and onion_runs_test.cpp.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "samplers/parallel/plan.h"
#include "tests/parallel/onion_options.h"

namespace troupe::samplers {
namespace {

MethodOptions chain(int segments, int stride, int warmup) {
  return {.kind = MethodKind::stale,
          .num_segments = segments,
          .stride = stride,
          .warmup_steps = warmup};
}

/// A segment on the way from latents to a model output.
struct Passed {
  int segment = 0;
  int part = 0;
  int call = 0;
  int timestep_call = 0;
  friend bool operator==(const Passed&, const Passed&) = default;
};
/// The inputs of one model output.
struct Provenance {
  std::vector<Passed> segments;  ///< last segment first
  int latents_call = 0;          ///< point whose latents went in
};

/// Of the model output that the step from `call` reads.
Provenance provenance(const Plan& plan, int call) {
  int at = plan.maker_of(plan.slot_of_point(call));
  EXPECT_EQ(plan.task(at).from, call);
  at = plan.maker_of(plan.task(at).inputs.at(1));
  Provenance trace;
  while (at != Plan::kNoTask && plan.task(at).op == Op::segment) {
    const Task& task = plan.task(at);
    trace.segments.push_back(
        {task.segment, task.part, task.from, task.timestep_call});
    at = plan.maker_of(task.inputs.front());
  }
  trace.latents_call = at == Plan::kNoTask ? 0 : plan.task(at).to;
  return trace;
}

int latents_age(const Plan& plan, int call) {
  return call - provenance(plan, call).latents_call;
}

const Task& maker(const Plan& plan, const Task& reader, std::size_t input) {
  return plan.task(plan.maker_of(reader.inputs.at(input)));
}

bool is_fresh(const MethodOptions& options, int call, int num_calls) {
  return call < std::max(1, options.warmup_steps) ||
         call >= num_calls - options.final_fresh_steps;
}

TEST(StalePlan, ReadsItsOwnCallInFreshCallsOnly) {
  constexpr int kCalls = 20;
  for (const int stride : {1, 2}) {
    for (const int fresh : {0, 1, 2, 3}) {
      MethodOptions options = chain(4, stride, 5);
      options.final_fresh_steps = fresh;
      const Plan plan(options, kCalls);
      for (int call = 0; call < kCalls; ++call) {
        const Provenance trace = provenance(plan, call);
        if (!is_fresh(options, call, kCalls)) {
          EXPECT_LT(trace.latents_call, call);
          continue;
        }
        EXPECT_EQ(trace.latents_call, call);
        for (const Passed& passed : trace.segments) {
          EXPECT_EQ(passed.call, call);
          EXPECT_EQ(passed.timestep_call, call);
        }
      }
    }
  }
}

TEST(StalePlan, OfStrideOneHasLatentsOfAgeSegmentsMinusOneAfterARamp) {
  for (int segments = 1; segments <= 6; ++segments) {
    for (const int warmup : {1, 2, 3, 9}) {
      const Plan plan(chain(segments, 1, warmup), 30);
      for (int call = warmup; call < 30; ++call) {
        // The warm-up was fresh: the age grows by one a call from there.
        EXPECT_EQ(latents_age(plan, call),
                  std::min(segments - 1, call - warmup + 1));
      }
    }
  }
}

TEST(StalePlan, OfStrideOneFeedsEverySegmentItsOwnTimestep) {
  const std::vector<Passed> expected = {
      {3, 3, 20, 20}, {2, 2, 19, 19}, {1, 1, 18, 18}, {0, 0, 17, 17}};
  EXPECT_EQ(provenance(Plan(chain(4, 1, 1), 30), 20).segments, expected);
}

TEST(StalePlan, OfStrideTwoHasAsyncDiffsTwoAges) {
  for (int segments = 2; segments <= 5; ++segments) {
    for (const int warmup : {1, 2, 3, 4}) {
      const Plan plan(chain(segments, 2, warmup), 40);
      for (int call = warmup + 2 * segments; call < 40; ++call) {
        EXPECT_EQ(latents_age(plan, call),
                  2 * (segments - 1) + (call - warmup) % 2);
      }
    }
  }
}

TEST(StalePlan, OfStrideTwoFeedsAsyncDiffsTimesteps) {
  const Plan plan(chain(3, 2, 1), 40);
  // Call 21 is at an even offset: its own timestep, over segments that got the
  // timestep after theirs. The call after has the second executor.
  const std::vector<Passed> even = {
      {2, 2, 21, 21}, {1, 1, 19, 20}, {0, 0, 17, 18}};
  EXPECT_EQ(provenance(plan, 21).segments, even);
  const std::vector<Passed> odd = {
      {2, 3, 22, 22}, {1, 1, 19, 20}, {0, 0, 17, 18}};
  EXPECT_EQ(provenance(plan, 22).segments, odd);
}

TEST(StalePlan, GivesEveryCallAnOutputOfItsOwnAndNoPartAPassForNobody) {
  for (const int stride : {1, 2}) {
    for (const int warmup : {1, 2, 3, 4, 5}) {
      const Plan plan(chain(3, stride, warmup), 20);
      std::map<Slot, int> outputs;
      for (int i = 0; i < plan.size(); ++i) {
        const Task& task = plan.task(i);
        if (task.op == Op::step) {
          ++outputs[task.inputs.at(1)];
        } else {
          EXPECT_FALSE(plan.readers_of(task.outputs.at(0)).empty());
        }
      }
      EXPECT_EQ(outputs.size(), 20U);
    }
  }
}

TEST(StalePlan, NamesAPartForEverySegmentAndForTheSecondExecutor) {
  for (const int stride : {1, 2}) {
    const MethodOptions options = chain(3, stride, 1);
    const Plan plan(options, 12);
    int parts = 0;
    for (int i = 0; i < plan.size(); ++i) {
      parts = std::max(parts, plan.task(i).part + 1);
    }
    EXPECT_EQ(num_parts(options), parts);
    EXPECT_EQ(parts, 2 + stride);
  }
}

RC_GTEST_PROP(StalePlan, HasExactlyTheAgesOfItsCuts, ()) {
  MethodOptions options =
      chain(*rc::gen::inRange(1, 6), 1, *rc::gen::inRange(0, 8));
  options.cut = *rc::gen::element(CutShape::chain, CutShape::onion);
  options.ages = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(options.num_segments - 1),
      rc::gen::inRange(0, 4));
  const int calls = *rc::gen::inRange(1, 25);
  options.final_fresh_steps = *rc::gen::inRange(0, std::min(5, calls + 1));
  options.warmup_steps = std::min(options.warmup_steps, calls);
  const Plan plan(options, calls);
  const int last = num_segments(options) - 1;
  for (int i = 0; i < plan.size(); ++i) {
    const Task& task = plan.task(i);
    RC_ASSERT(task.timestep_call == task.from);
    if (task.op != Op::segment || task.segment == 0) {
      continue;
    }
    const bool is_onion = options.cut == CutShape::onion;
    const bool comes_back = takes_skips(options, task.segment);
    const int cut = is_onion ? last - task.segment : task.segment - 1;
    const int age = is_fresh(options, task.from, calls) ? 0
                    : !is_onion || comes_back
                        ? options.ages[static_cast<std::size_t>(cut)]
                        : 0;
    const Task& before = maker(plan, task, 0);
    RC_ASSERT(before.segment == task.segment - 1);
    RC_ASSERT(before.from == std::max(0, task.from - age));
    RC_ASSERT(task.inputs.size() == (comes_back ? 2U : 1U));
    if (comes_back) {  // skips stay with their part, and are of the same call
      const Task& mirror = maker(plan, task, 1);
      RC_ASSERT(mirror.segment == last - task.segment);
      RC_ASSERT(mirror.part == task.part);
      RC_ASSERT(mirror.from == task.from);
    }
  }
}

TEST(StalePlan, OfAnOnionHasExactlyTheseTasks) {
  enum : int { kEncoder, kDeep, kDecoder, kStep };
  struct Entry {
    int kind, call;
    std::vector<int> inputs;  // by their places in this list; −1: the start
  };
  const std::vector<Entry> expected = {
      {kEncoder, 0, {-1}},  // 0
      {kDeep, 0, {0}},
      {kDecoder, 0, {1, 0}},
      {kStep, 0, {-1, 2}},  // 3
      {kEncoder, 1, {3}},
      {kDeep, 1, {4}},
      {kDecoder, 1, {1, 4}},  // 6: the deep part of call 0, the skip of 1
      {kStep, 1, {3, 6}},
      {kEncoder, 2, {7}},  // 8: the deep part would serve nobody
      {kDecoder, 2, {5, 8}},
      {kStep, 2, {7, 9}}};
  const Plan plan(stale_onion(2, 1, 1), 3);
  ASSERT_EQ(plan.size(), static_cast<int>(expected.size()));
  for (int i = 0; i < plan.size(); ++i) {
    const Task& task = plan.task(i);
    const Entry& entry = expected[static_cast<std::size_t>(i)];
    EXPECT_EQ(task.op == Op::step ? kStep : task.segment, entry.kind) << i;
    EXPECT_EQ(task.from, entry.call) << i;
    std::vector<int> inputs;
    for (const Slot slot : task.inputs) {
      inputs.push_back(plan.maker_of(slot));
    }
    EXPECT_EQ(inputs, entry.inputs) << i;
  }
}

TEST(StalePlan, OfAnOnionHasLatentsOfItsAgesAfterARampAndFreshOnesAroundIt) {
  constexpr int kCalls = 30;
  for (int parts = 1; parts <= 5; ++parts) {
    for (const int warmup : {1, 2, 3, 9}) {
      const MethodOptions options = stale_onion(parts, 1, warmup, 3);
      const Plan plan(options, kCalls);
      for (int call = 0; call < kCalls; ++call) {
        EXPECT_EQ(latents_age(plan, call),
                  is_fresh(options, call, kCalls)
                      ? 0
                      : std::min(parts - 1, call - warmup + 1));
      }
    }
  }
}

/// The last step of a run of which one part has stopped before call `stopped`.
int last_step_without(int part, const Plan& plan, int stopped) {
  std::vector<bool> is_made(plan.num_slots());
  is_made[kInitialSlot] = true;
  int last = -1;
  for (int i = 0; i < plan.size(); ++i) {
    const Task& task = plan.task(i);
    const bool runs = !(task.part == part && task.from >= stopped) &&
                      std::ranges::all_of(task.inputs, [&](Slot slot) {
                        return is_made[slot];
                      });
    for (const Slot slot : task.outputs) {
      is_made[slot] = runs;
    }
    if (runs && task.op == Op::step) {
      last = task.from;
    }
  }
  return last;
}

/// Of 2 to 5 parts, any of which is late: the others go on by the ages between
/// them and it, and then wait. The first part makes the steps.
TEST(StalePlan, OfAnOnionRunsItsAgesAheadOfALatePartAndThenWaits) {
  constexpr int kCalls = 24;
  for (int parts = 2; parts <= 5; ++parts) {
    for (int first_age = 0; first_age <= 3; ++first_age) {
      MethodOptions options = stale_onion(parts);
      for (int cut = 0; cut + 1 < parts; ++cut) {
        options.ages.push_back((first_age + 2 * cut) % 4);
      }
      const Plan plan(options, kCalls);
      int ahead = 0;
      for (int part = 1; part < parts; ++part) {
        ahead += options.ages[static_cast<std::size_t>(part) - 1];
        for (int stopped = 1; stopped + ahead <= kCalls; ++stopped) {
          EXPECT_EQ(last_step_without(part, plan, stopped), stopped - 1 + ahead)
              << parts << " parts, part " << part << " stopped before call "
              << stopped;
        }
      }
    }
  }
}

/// When the last step is done if every task begins as soon as its inputs and
/// its part are there. Values that cross from part to part take `hop`; the
/// solver is a part of its own.
std::int64_t duration(const MethodOptions& options, int calls,
                      const std::function<std::int64_t(int segment)>& cost,
                      std::int64_t hop) {
  const Plan plan(options, calls);
  std::vector<std::int64_t> made(plan.num_slots());
  std::map<int, std::int64_t> free;
  for (int i = 0; i < plan.size(); ++i) {
    const Task& task = plan.task(i);
    const bool is_segment = task.op == Op::segment;
    std::int64_t start = is_segment ? free[task.part] : 0;
    for (const Slot slot : task.inputs) {
      const int from = plan.maker_of(slot);
      const bool crosses = from != Plan::kNoTask && is_segment &&
                           (plan.task(from).op != Op::segment
                                ? options.cut == CutShape::chain
                                : plan.task(from).part != task.part);
      start = std::max(start, made[slot] + (crosses ? hop : 0));
    }
    const std::int64_t end = start + (is_segment ? cost(task.segment) : 0);
    if (is_segment) {
      free[task.part] = end;
    }
    for (const Slot slot : task.outputs) {
      made[slot] = end;
    }
  }
  return made[plan.slot_of_point(calls - 1)];
}

/// Expects that 60 calls in the steady state take 60 times numerator ÷
/// denominator.
void expect_period(const MethodOptions& options,
                   const std::function<std::int64_t(int)>& cost,
                   std::int64_t hop, std::int64_t numerator,
                   std::int64_t denominator) {
  const std::int64_t more =
      duration(options, 180, cost, hop) - duration(options, 120, cost, hop);
  EXPECT_EQ(more * denominator, 60 * numerator);
}

TEST(StalePeriod, OfAChainIsItsSlowestStageOrTheWayAroundOverItsAges) {
  // max(max tᵢ, (T1 + N c) / (s + 1)) for N stages, hop c, ages s together.
  for (const std::vector<std::int64_t>& costs :
       {std::vector<std::int64_t>{5, 5, 5}, {9, 1, 1}, {2, 7, 3}}) {
    for (int age = 0; age <= 2; ++age) {
      for (const std::int64_t hop : {0, 4}) {
        MethodOptions options = chain(3, 1, 1);
        options.ages = {std::min(age, 1), std::max(age - 1, 0)};
        const std::int64_t around = costs[0] + costs[1] + costs[2] + 3 * hop;
        expect_period(
            options,
            [&](int segment) {
              return costs[static_cast<std::size_t>(segment)];
            },
            hop, std::max(std::ranges::max(costs) * (age + 1), around),
            age + 1);
      }
    }
  }
}

TEST(StalePeriod, OfAsyncDiffIsOneSegmentPerStrideSteps) {
  const auto one = [](int /*segment*/) { return std::int64_t{1}; };
  for (int segments = 2; segments <= 5; ++segments) {
    expect_period(chain(segments, 1, 1), one, 0, 1, 1);
    expect_period(chain(segments, 2, 1), one, 0, 1, 2);
    MethodOptions fresh = chain(segments, 1, 1);
    fresh.age = 0;
    expect_period(fresh, one, 0, segments, 1);
  }
}

TEST(StalePeriod, OfAnOnionOfTwoPartsIsThatOfItsFormula) {
  // max(te + td, tm, (te + td + tm + 2c) / (s + 1))
  for (const std::vector<std::int64_t>& costs :
       {std::vector<std::int64_t>{3, 7, 4}, {1, 9, 2}, {6, 2, 5}}) {
    const std::int64_t shell = costs[0] + costs[2];
    for (const std::int64_t hop : {0, 2, 5}) {
      for (int age = 0; age <= 3; ++age) {
        expect_period(
            stale_onion(2, age, 1, 0),
            [&](int segment) {
              return costs[static_cast<std::size_t>(segment)];
            },
            hop,
            std::max(std::max(shell, costs[1]) * (age + 1),
                     shell + costs[1] + 2 * hop),
            age + 1);
      }
    }
  }
}

TEST(StalePeriod, OfAnOnionOfSeveralPartsIsThatOfOnePartAtAgeOne) {
  for (int parts = 1; parts <= 5; ++parts) {
    // The core is one segment and costs as much as the two of other parts.
    const auto cost = [&](int segment) {
      return std::int64_t{segment == parts - 1 ? 2 : 1};
    };
    expect_period(stale_onion(parts), cost, 0, 2, 1);
    expect_period(stale_onion(parts, 0), cost, 0, std::int64_t{2} * parts, 1);
  }
}

}  // namespace
}  // namespace troupe::samplers
