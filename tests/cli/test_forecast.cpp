#include <gtest/gtest.h>

#include "actors/cli/forecast.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

Workload of(const samplers::MethodOptions& method, std::uint64_t samples,
            int workers, int calls = 50) {
  return workload_of({.samples = samples,
                      .calls = calls,
                      .workers = workers,
                      .blocks = 12,
                      .method = method});
}

TEST(Workload, SharesWholeSamplesOut) {
  EXPECT_EQ(of({.kind = MethodKind::sequential}, 1, 1).path, 50);
  EXPECT_EQ(of({.kind = MethodKind::batch}, 4, 2).path, 100);
  EXPECT_EQ(of({.kind = MethodKind::batch}, 3, 2).path, 100) << "one waits";
  EXPECT_EQ(of({.kind = MethodKind::batch}, 3, 2).evaluations, 150);
  EXPECT_EQ(of({.kind = MethodKind::batch}, 0, 2).path, 0);
}

TEST(Workload, HalvesASampleByItsBranches) {
  EXPECT_EQ(of({.kind = MethodKind::cfg}, 1, 2).path, 25);
  EXPECT_EQ(of({.kind = MethodKind::cfg}, 1, 2).evaluations, 50);
  EXPECT_EQ(of({.kind = MethodKind::cfg}, 1, 1).path, 50);
}

TEST(Workload, FillsAPipelineWithSamples) {
  const samplers::MethodOptions two = {.kind = MethodKind::pipeline,
                                       .num_segments = 2};
  EXPECT_EQ(of(two, 1, 2).path, 50) << "a lone sample waits for itself";
  EXPECT_EQ(of(two, 4, 2).path, 100);
  EXPECT_EQ(of(two, 4, 1).path, 200);
  const samplers::MethodOptions five = {.kind = MethodKind::pipeline,
                                        .num_segments = 5};
  EXPECT_EQ(of(five, 20, 5).path, 20 * 50 * 0.25) << "3 of 12 blocks is most";
}

TEST(Workload, FollowsTheStaleGraph) {
  // T ÷ (W + (T − W)/2), the rate of two segments of age 1.
  const samplers::MethodOptions stale = {
      .kind = MethodKind::stale, .num_segments = 2, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(of(stale, 1, 2).path, 4 + 46 / 2.0);
  // One worker runs both; what the last step would have read is not computed.
  EXPECT_DOUBLE_EQ(of(stale, 1, 1).path, 49.5);
  EXPECT_DOUBLE_EQ(of(stale, 1, 1).evaluations, 49.5);
  samplers::MethodOptions fresh = stale;
  fresh.age = 0;
  EXPECT_DOUBLE_EQ(of(fresh, 1, 2).path, 50);
  EXPECT_DOUBLE_EQ(of(fresh, 1, 2).evaluations, 50);
}

TEST(Workload, TakesWhatWasMeasuredOfPicard) {
  JobShape shape{.samples = 1,
                 .calls = 50,
                 .workers = 4,
                 .blocks = 12,
                 .method = {.kind = MethodKind::picard,
                            .window_size = 2,
                            .tolerance = 0.1},
                 .measured = MeasuredCalls{.rounds = 30, .all = 60}};
  EXPECT_DOUBLE_EQ(workload_of(shape).path, 30);
  EXPECT_EQ(workload_of(shape).evaluations, 60);
  EXPECT_FALSE(workload_of(shape).is_bound);
  shape.workers = 1;
  EXPECT_EQ(workload_of(shape).path, 60);
  // Known beforehand, and not by a measurement.
  shape.method = {.kind = MethodKind::draft, .window_size = 2};
  EXPECT_EQ(workload_of(shape).path, 50);
}

TEST(Workload, BoundsPicard) {
  const samplers::MethodOptions picard = {
      .kind = MethodKind::picard, .window_size = 4, .tolerance = 0.1};
  const Workload one = of(picard, 1, 1, 6);
  EXPECT_TRUE(one.is_bound);
  EXPECT_EQ(one.evaluations, 4 + 4 + 4 + 3 + 2 + 1);
  EXPECT_EQ(one.path, one.evaluations);
  EXPECT_EQ(of(picard, 1, 2, 6).path, 2 + 2 + 2 + 1.5 + 1 + 1)
      << "the next round begins before one has ended";
  EXPECT_EQ(of(picard, 1, 4, 6).path, 6) << "a round costs an evaluation";
}

TEST(Workload, DoublesWithTheSteps) {
  for (const MethodKind kind : {MethodKind::sequential, MethodKind::batch,
                                MethodKind::cfg, MethodKind::pipeline}) {
    for (const int workers : {1, 2, 3}) {
      const Workload once = of({.kind = kind}, 3, workers, 25);
      const Workload twice = of({.kind = kind}, 3, workers, 50);
      EXPECT_DOUBLE_EQ(twice.evaluations, 2 * once.evaluations);
      EXPECT_DOUBLE_EQ(twice.path, 2 * once.path);
    }
  }
}

}  // namespace
}  // namespace troupe::actors
