// What stale onions compute, and where their values are.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "samplers/parallel/method.h"
#include "tests/parallel/onion_options.h"
#include "tests/parallel/support.h"

namespace troupe::samplers {
namespace {

TEST(Onion, KeepsEverySkipWithThePartThatMadeIt) {
  for (int parts = 2; parts <= 5; ++parts) {
    for (const MethodKind kind : {MethodKind::pipeline, MethodKind::stale}) {
      MethodOptions options = stale_onion(parts);
      options.kind = kind;
      const auto method = make_method(options, Schedule(testing::steps(9)));
      std::map<Slot, int> part_of_skips;
      std::map<Slot, int> part_of_hidden;
      int read_at_home = 0;
      while (!method->done()) {
        for (const Task& task : method->ready(kNothingAhead)) {
          if (task.op == Op::segment) {
            EXPECT_EQ(task.part, part_of_segment(options, task.segment));
            EXPECT_EQ(task.outputs.size(),
                      keeps_skips(options, task.segment) ? 2U : 1U);
            part_of_hidden[task.outputs.at(0)] = task.part;
          }
          if (task.outputs.size() > 1) {
            part_of_skips[task.outputs.at(1)] = task.part;
          }
          for (std::size_t i = 0; i < task.inputs.size(); ++i) {
            const auto skips = part_of_skips.find(task.inputs[i]);
            if (skips != part_of_skips.end()) {
              EXPECT_EQ(i, 1U);
              EXPECT_EQ(skips->second, task.part);
              ++read_at_home;
            } else if (task.op == Op::segment && task.segment > 0) {
              // A neighbour's: no hop skips a part.
              EXPECT_EQ(std::abs(part_of_hidden.at(task.inputs[i]) - task.part),
                        1);
            }
          }
          EXPECT_TRUE(method->apply({task.id, task.version, {}}));
        }
      }
      // What is p steps deep in a stale run serves nobody in the last p steps.
      const int left_out =
          kind == MethodKind::stale ? (parts - 1) * (parts - 2) / 2 : 0;
      EXPECT_EQ(read_at_home, 9 * (parts - 1) - left_out);
    }
  }
}

/// In integers, as a recurrence in closed form.
RC_GTEST_PROP(Onion, FollowsItsRecurrence, ()) {
  const int parts = *rc::gen::inRange(1, 6);
  MethodOptions options = stale_onion(parts);
  options.warmup_steps = *rc::gen::inRange(1, 6);
  options.final_fresh_steps = *rc::gen::inRange(0, 4);
  options.ages = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(parts - 1), rc::gen::inRange(0, 4));
  const int calls = *rc::gen::inRange(6, 30);
  const auto made = [](int segment, std::int64_t hidden, std::int64_t skip) {
    return 3 * hidden + 5 * skip * segment + segment + hidden % 7;
  };
  // The slots of the method.
  const auto method = make_method(options, Schedule(testing::steps(calls)));
  std::map<Slot, std::int64_t> slots = {{kInitialSlot, 42}};
  std::vector<std::int64_t> trajectory = {42};
  while (!method->done()) {
    for (const Task& task : method->ready(kNothingAhead)) {
      std::vector<std::int64_t> in;
      for (const Slot slot : task.inputs) {
        in.push_back(slots.at(slot));
      }
      const std::int64_t second = in.size() > 1 ? in[1] : 0;
      const std::int64_t value = task.op == Op::step
                                     ? (in[0] + second) % 10007
                                     : made(task.segment, in[0], second) % 9973;
      for (const Slot slot : task.outputs) {
        slots[slot] = value;
      }
      if (task.op == Op::step) {
        trajectory.push_back(value);
      }
      (void)method->apply({task.id, task.version, {}});
    }
  }
  // y[s][k], from y[s − 1] and, on the way outward, from the mirror.
  const int segments = 2 * parts - 1;
  std::vector<std::vector<std::int64_t>> y(static_cast<std::size_t>(segments));
  std::vector<std::int64_t> x = {42};
  for (int k = 0; k < calls; ++k) {
    const bool is_fresh =
        k < options.warmup_steps || k >= calls - options.final_fresh_steps;
    for (int s = 0; s < segments; ++s) {
      const auto n = static_cast<std::size_t>(s);
      const auto mirror = static_cast<std::size_t>(segments - 1 - s);
      const bool is_outward = s >= parts;
      const int age = is_outward && !is_fresh ? options.ages[mirror] : 0;
      const auto at = static_cast<std::size_t>(std::max(0, k - age));
      const std::int64_t hidden = s == 0 ? x.back() : y[n - 1][at];
      const std::int64_t skip = is_outward ? y[mirror].back() : 0;
      y[n].push_back(made(s, hidden, skip) % 9973);
    }
    x.push_back((x.back() + y.back().back()) % 10007);
  }
  RC_ASSERT(trajectory == x);
}

/// A frozen run: latents and timestep stand still, and the first step's values
/// are spoilt.
TEST(Onion, ForgetsGarbageAfterItsAges) {
  for (int parts = 2; parts <= 5; ++parts) {
    const auto method =
        make_method(stale_onion(parts), Schedule(testing::steps(20)));
    std::map<Slot, std::int64_t> slots = {{kInitialSlot, 42}};
    std::vector<std::int64_t> outputs;
    while (!method->done()) {
      for (const Task& task : method->ready(kNothingAhead)) {
        std::int64_t value = slots.at(task.inputs.at(0));
        if (task.op == Op::segment) {
          value = 3 * value + task.segment +
                  (task.inputs.size() > 1 ? slots.at(task.inputs.at(1)) : 0) +
                  (task.from == 0 ? 1 : 0);
        } else {
          outputs.push_back(slots.at(task.inputs.at(1)));
        }
        for (const Slot slot : task.outputs) {
          slots[slot] = value;
        }
        EXPECT_TRUE(method->apply({task.id, task.version, {}}));
      }
    }
    for (int k = 0; k < 20; ++k) {
      EXPECT_EQ(outputs.at(static_cast<std::size_t>(k)) != outputs.back(),
                k < parts)
          << parts << " parts, step " << k;
    }
  }
}

/// Another negative prompt, at one timestep alone: behind the first segment the
/// branch without the prompt is moved.
struct MovedOnce : testing::ToyEvaluator {
  using ToyEvaluator::ToyEvaluator;
  double timestep = -1;

  void run_segment(ExecContext& ctx, int segment,
                   std::span<SegmentRow> rows) override {
    for (SegmentRow& row : rows) {
      if (segment > 0 && row.timestep == timestep) {
        Tensor moved = row.boundary.at(1).tensor.clone();
        for (float& value : moved.span<float>()) {
          value += 0.25F;
        }
        row.boundary[1].tensor = std::move(moved);
      }
    }
    ToyEvaluator::run_segment(ctx, segment, rows);
  }
};

/// Each step reads the negative prompt, also where other values are old.
TEST(Onion, ReadsTheUnconditionalPromptInEveryStep) {
  for (int parts = 2; parts <= 5; ++parts) {
    const MethodOptions options = stale_onion(parts);
    testing::Bench bench(testing::steps(12));
    MovedOnce network(Shape{1, 3, 5}, num_segments(options));
    network.skip_weight = 0.5F;
    const auto usual = points_of(bench, network, options);
    ASSERT_EQ(usual.size(), 12U);
    for (int call = 0; call < 12; ++call) {
      network.timestep = bench.schedule.timestep(call);
      for (const auto& [point, latents] : points_of(bench, network, options)) {
        if (point <= call + 1) {
          EXPECT_EQ(bytes_equal(latents, usual.at(point)), point <= call)
              << parts << " parts, moved in call " << call << ", point "
              << point;
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::samplers
