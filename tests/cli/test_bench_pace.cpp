// What `bench methods` tells the emulation of its workers.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "actors/cli/bench_pace.h"

namespace troupe::actors {
namespace {

std::vector<PassBar> passes_of(int worker, const std::vector<double>& seconds) {
  std::vector<PassBar> passes;
  for (const double one : seconds) {
    passes.push_back({.worker = worker, .seconds = one});
  }
  return passes;
}

TEST(PaceSamples, TakesMediansWithoutTheFirstPassOfAWorker) {
  PaceSamples samples;
  EXPECT_TRUE(samples.empty());
  for (const double slower : {0.0, 0.0, 5.0}) {
    samples.add_alone(passes_of(0, {0.050, 0.038 + slower, 0.042 + slower}),
                      0.136 + 2 * slower);
    std::vector<PassBar> busy = passes_of(0, {0.056, 0.044, 0.044});
    const std::vector<PassBar> other = passes_of(1, {0.058, 0.040, 0.048});
    busy.insert(busy.end(), other.begin(), other.end());
    samples.add_busy(0, busy);
    samples.add_busy(1, passes_of(1, {0.034, 0.024, 0.024}));
  }
  const MeasuredPace pace = samples.pace();
  EXPECT_NEAR(pace.row_ms, 24, 1e-9);
  EXPECT_NEAR(pace.row_slope, 44. / 24 - 1, 1e-9);
  EXPECT_NEAR(pace.solo_speed, 1.1, 1e-9);
  EXPECT_NEAR(pace.start_ms, 6, 1e-9);
  // In each repeat 12, 14 and 10, and alone, but for the slow run, 10 by 1.1.
  EXPECT_NEAR(pace.first_ms, 11.5, 1e-9);
  // Two of six passes in each repeat are a part of 4 / 44 away from their mean.
  EXPECT_NEAR(pace.spread, 4. / 44 / std::sqrt(3), 1e-9);
}

TEST(PaceSamples, CountsTheOnlyPassOfAWorker) {
  PaceSamples samples;
  samples.add_alone(passes_of(0, {0.050}), 0.050);
  samples.add_busy(0, passes_of(0, {0.060}));
  const MeasuredPace pace = samples.pace();
  EXPECT_NEAR(pace.row_ms, 60, 1e-9);
  EXPECT_EQ(pace.row_slope, 1);
  EXPECT_EQ(pace.first_ms, 0);
  EXPECT_EQ(pace.start_ms, 0);
}

}  // namespace
}  // namespace troupe::actors
