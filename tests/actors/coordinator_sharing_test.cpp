// Who gets which sample, and when it changes hands within a class.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using std::chrono::milliseconds;

TEST(CoordinatorSharing, BeginsWithOneWorkerAndSharesWithThoseThatComeLater) {
  Company company({.kind = MethodKind::batch}, 3, 16, {.workers = alike(3, 8)});
  company.grant_duration = std::chrono::milliseconds(20);
  company.on(TimeTick{});
  EXPECT_TRUE(company.grants.empty()) << "nobody is up";
  company.raise(1);
  company.on(TimeTick{});
  EXPECT_EQ(company.workers_of_run.size(), 8U);
  // Samples that have not begun go to the next one.
  company.raise(0);
  EXPECT_EQ(company.workers_of_run.size(), 16U);
  // When there are none, what the others have is shared at once.
  company.raise(2);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 16U);
  std::map<int, int> samples_of;
  for (const auto& [run, workers] : company.workers_of_run) {
    for (const int worker : workers) {
      ++samples_of[worker];
    }
  }
  EXPECT_GE(samples_of[2], 5);
}

/// Two workers with a sample each: the slow one is still at its second call
/// when the other one is idle.
struct LastSample {
  explicit LastSample(milliseconds slow_pass) {
    company.grant_duration = milliseconds(20);
    company.paces[kSlow] = slow_pass;
    company.raise_all();
    company.run_one(kSlow);
    while (company.run_one(kFast)) {
      company.now += milliseconds(20);
    }
  }
  /// Those that worked for the sample of the slow one.
  [[nodiscard]] std::set<int> workers() const {
    for (const auto& [run, workers] : company.workers_of_run) {
      if (workers.contains(kSlow)) {
        return workers;
      }
    }
    return {};
  }

  static constexpr int kFast = 0;
  static constexpr int kSlow = 1;
  Company company{{.kind = MethodKind::batch}, 2, 2, {.workers = alike(2, 1)}};
};

TEST(CoordinatorSharing, LetsAnIdleFastWorkerFinishTheSampleOfASlowOne) {
  LastSample last(milliseconds(80));
  EXPECT_EQ(num_done(last.company), 1U);
  last.company.now += milliseconds(20);
  last.company.run_one(LastSample::kSlow);  // what it had been granted
  const std::size_t granted = last.company.grants.size();
  last.company.run_to_end();
  EXPECT_EQ(num_done(last.company), 2U);
  ASSERT_GT(last.company.grants.size(), granted);
  for (std::size_t i = granted; i < last.company.grants.size(); ++i) {
    EXPECT_EQ(last.company.grants[i].worker, LastSample::kFast);
  }
}

TEST(CoordinatorSharing, LeavesTheLastSampleWithAWorkerThatIsAlmostAsFast) {
  LastSample last(milliseconds(25));
  last.company.run_to_end();
  EXPECT_EQ(num_done(last.company), 2U);
  EXPECT_EQ(last.workers(), std::set<int>{LastSample::kSlow});
}

TEST(CoordinatorSharing, NoticesThatTheLastWorkerHasBecomeSlow) {
  LastSample last(milliseconds(20));
  last.company.on(TimeTick{});
  EXPECT_EQ(last.workers(), std::set<int>{LastSample::kSlow});
  last.company.paces[LastSample::kSlow] = milliseconds(200);
  last.company.run_one(LastSample::kSlow);
  last.company.now += milliseconds(200);
  last.company.on(TimeTick{});
  last.company.run_to_end();
  EXPECT_EQ(num_done(last.company), 2U);
  EXPECT_EQ(last.workers(),
            (std::set<int>{LastSample::kFast, LastSample::kSlow}));
}

TEST(CoordinatorSharing, RunsLongSamplesOfABatchOneAfterAnother) {
  Company company({.kind = MethodKind::batch}, 2, 6);
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(company.deepest, 1U);
  EXPECT_EQ(num_done(company), 6U);
}

TEST(CoordinatorSharing, GivesMoreSamplesToAFasterWorker) {
  Company company({.kind = MethodKind::batch}, 2, 40);
  company.raise_all();
  for (int i = 0; company.times_ended == 0 && i < 100000; ++i) {
    for (int k = 0; k < 3; ++k) {
      company.run_one(0);
    }
    company.run_one(1);
  }
  int fast = 0;
  for (const auto& [sample, workers] : company.step_workers) {
    fast += workers.contains(0) ? 1 : 0;
  }
  EXPECT_GE(fast, 27);
  EXPECT_EQ(num_done(company), 40U);
}

TEST(CoordinatorSharing, KeepsABatchSampleOnOneWorkerUntilTheLastOnes) {
  Company company({.kind = MethodKind::batch}, 2, 20);
  company.raise_all();
  company.run_to_end();
  for (std::uint64_t i = 0; i < 14; ++i) {
    EXPECT_EQ(company.step_workers[i].size(), 1U) << i;
  }
}

}  // namespace
}  // namespace troupe::actors
