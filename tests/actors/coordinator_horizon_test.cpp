// How far ahead tasks are granted.

#include <gtest/gtest.h>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;

/// One sample of five calls through two segments, whose passes take 10 ms.
class AFarProcess : public ::testing::Test {
 protected:
  AFarProcess()
      : company({.kind = samplers::MethodKind::pipeline, .num_segments = 2}, 0,
                1, [] {
                  CoordinatorOptions options;
                  options.waits_for_processes = true;
                  return options;
                }()) {
    company.grant_duration = milliseconds(10);
    company.join(1, alike(2, 1));
  }
  /// How many calls have been granted when the first pass has been answered.
  [[nodiscard]] int calls_ahead() {
    company.raise_all();
    EXPECT_TRUE(company.run_one(0));
    int last = 0;
    for (const Grant& grant : company.grants) {
      for (const SampleTask& work : grant.tasks) {
        last = std::max(last, work.task.to);
      }
    }
    return last;
  }
  Company company;
};

TEST_F(AFarProcess, IsGivenWorkForFourRoundTrips) {
  company.on(LinkMeasured{1, milliseconds(12)});
  EXPECT_EQ(calls_ahead(), 5);
}

TEST_F(AFarProcess, IsGivenNoMoreThanANearOneOnceItIsNear) {
  company.on(LinkMeasured{1, milliseconds(12)});
  company.on(LinkMeasured{1, std::chrono::microseconds(200)});
  EXPECT_EQ(calls_ahead(), 3);
}

TEST_F(AFarProcess, MayBeMeasuredAfterItWasLost) {
  company.on(LinkMeasured{1, milliseconds(12)});
  company.on(ProcessDown{1, {Errc::unreachable, "process", "lost", {}}});
  // This message was under way when the process was lost.
  company.on(LinkMeasured{1, milliseconds(12)});
  company.join(2, alike(2, 1));
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(company.times_ended, 1);
}

}  // namespace
}  // namespace troupe::actors
