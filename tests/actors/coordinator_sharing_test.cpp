// Who gets which sample, and when it changes hands within a class.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

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

/// How many of what was granted to a worker from a place on were of this part.
std::ptrdiff_t num_granted(const Company& company, std::size_t from, int worker,
                           int part) {
  std::ptrdiff_t sum = 0;
  for (std::size_t i = from; i < company.grants.size(); ++i) {
    const Grant& grant = company.grants[i];
    sum += grant.worker == worker
               ? std::ranges::count_if(grant.tasks,
                                       [part](const SampleTask& work) {
                                         return work.task.part == part;
                                       })
               : 0;
  }
  return sum;
}

TEST(CoordinatorSharing, GivesALateWorkerItsPartOfWhatIsGrantedAlready) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 1, 4,
                  {.workers = alike(1, 1)});
  company.raise(0);
  company.join(1, alike(1, 1));
  const std::ptrdiff_t ahead = num_granted(company, 0, 0, 1);
  ASSERT_GE(ahead, 4) << "worker 0 stands in for the other one";
  const std::size_t before = company.grants.size();
  company.keeps_returned = true;
  company.raise(1);
  ASSERT_EQ(company.returned.size(), 1U);
  EXPECT_EQ(company.returned.front().grants.size(),
            static_cast<std::size_t>(ahead))
      << "what it had not begun";
  EXPECT_EQ(num_granted(company, before, 1, 1), 0) << "before it is given back";
  company.keeps_returned = false;
  company.hear_returned();
  EXPECT_EQ(num_granted(company, before, 1, 1), ahead);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
}

TEST(CoordinatorSharing, GivesALateWorkerItsShareOfRowsThatSpread) {
  Company company({.kind = MethodKind::picard, .window_size = 4}, 1, 1,
                  {.workers = alike(1, 1)});
  company.raise(0);
  company.join(1, alike(1, 1));
  const std::size_t before = company.grants.size();
  company.keeps_returned = true;
  company.raise(1);
  ASSERT_EQ(company.returned.size(), 1U);
  const auto returned =
      static_cast<std::ptrdiff_t>(company.returned.front().grants.size());
  EXPECT_EQ(returned, 2) << "half of a round";
  company.keeps_returned = false;
  company.hear_returned();
  std::ptrdiff_t evaluations = 0;
  for (std::size_t i = before; i < company.grants.size(); ++i) {
    if (company.grants[i].worker == 1) {
      evaluations += std::ranges::count_if(
          company.grants[i].tasks, [](const SampleTask& work) {
            return work.task.op == samplers::Op::evaluate;
          });
    }
  }
  EXPECT_EQ(evaluations, returned);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorSharing, TakesASampleAlongWithWhatIsGrantedOfIt) {
  Company company({.kind = MethodKind::batch}, 2, 4, {.workers = alike(2, 1)});
  company.grant_duration = milliseconds(1000);
  company.on(TimeTick{});
  company.raise(0);
  company.on(TimeTick{});
  company.run_one(0);
  const std::size_t before = company.grants.size();
  company.raise(1);
  EXPECT_GE(num_granted(company, before, 1, 0), 2)
      << "what worker 0 was granted of it";
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
}

/// Who decodes the samples of a pipeline of two workers.
std::map<int, int> decodes_by_worker(std::vector<WorkerTraits> workers) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 2,
                  {.workers = std::move(workers)});
  company.raise_all();
  std::map<int, int> decodes;
  // Whoever decodes is slow: all four wait before the first is done.
  for (int i = 0; company.times_ended == 0 && i < 1000; ++i) {
    const int w = i % 2;
    const auto& box = company.mailboxes[static_cast<std::size_t>(w)];
    if (!box.empty() &&
        (box.front().tasks[0].task.op != samplers::Op::decode || i > 500)) {
      company.run_one(w);
    }
    answer_fetches(company);
  }
  for (const Grant& grant : company.grants) {
    for (const SampleTask& work : grant.tasks) {
      decodes[grant.worker] += work.task.op == samplers::Op::decode ? 1 : 0;
    }
  }
  EXPECT_EQ(num_done(company), 2U);
  return decodes;
}

TEST(CoordinatorSharing, DecodesOnAllWorkersThatShareTheDecodersMemory) {
  EXPECT_EQ(decodes_by_worker(alike(2, 1)),
            (std::map<int, int>{{0, 1}, {1, 1}}));
  std::vector<WorkerTraits> apart = alike(2, 1);
  apart[1].process = 1;
  EXPECT_EQ(decodes_by_worker(apart), (std::map<int, int>{{0, 2}, {1, 0}}));
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
