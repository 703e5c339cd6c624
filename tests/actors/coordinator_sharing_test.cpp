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
  // When no sample waits, a new worker gets samples of the other workers at
  // once.
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
  /// The workers that computed tasks of the slow worker's sample.
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

/// Two workers that share the branches of guided samples, and what a row takes
/// on each. `calls`: of a sample; 0: as short_schedule() has.
struct Branches {
  Branches(milliseconds first, milliseconds second, std::uint64_t samples,
           int calls = 0)
      : schedule(ddim_steps(std::max(calls, 1))),
        company({.kind = MethodKind::cfg}, 2, samples, options(calls)) {
    company.paces = {{0, first}, {1, second}};
  }
  CoordinatorOptions options(int calls) {
    CoordinatorOptions made{.decode = false};
    if (calls > 0) {
      made.make_method = [this] {
        return samplers::make_method({.kind = MethodKind::cfg}, schedule);
      };
    }
    return made;
  }
  /// Who got each row, in order: branch and worker.
  [[nodiscard]] std::vector<std::pair<int, int>> rows() const {
    std::vector<std::pair<int, int>> all;
    for (const Grant& grant : company.grants) {
      for (const SampleTask& work : grant.tasks) {
        if (work.task.op == samplers::Op::evaluate) {
          all.emplace_back(work.task.part, grant.worker);
        }
      }
    }
    return all;
  }
  [[nodiscard]] double share_of(int worker) const {
    const auto all = rows();
    return static_cast<double>(
               std::ranges::count(all, worker, &std::pair<int, int>::second)) /
           static_cast<double>(all.size());
  }

  samplers::Schedule schedule;
  Company company;
};

TEST(CoordinatorSharing, GivesMoreBranchesToAFasterWorker) {
  for (const auto& [slow, share] : {std::pair(20, 1.0 / 3), {40, 0.2}}) {
    for (const bool is_first : {true, false}) {
      Branches two(milliseconds(is_first ? slow : 10),
                   milliseconds(is_first ? 10 : slow), 40);
      two.company.raise_all();
      two.company.run_to_end();
      EXPECT_EQ(num_done(two.company), 40U);
      EXPECT_NEAR(two.share_of(is_first ? 0 : 1), share, 0.03) << slow;
    }
  }
}

TEST(CoordinatorSharing, LeavesABranchToEachOfTwoWorkersThatAreAlmostEqual) {
  Branches two(milliseconds(10), milliseconds(11), 40);
  two.company.raise_all();
  two.company.run_to_end();
  EXPECT_EQ(num_done(two.company), 40U);
  for (const auto& [branch, worker] : two.rows()) {
    EXPECT_EQ(branch, worker);
  }
}

TEST(CoordinatorSharing, GivesASampleAloneToAWorkerMoreThanTwiceAsFast) {
  Branches less(milliseconds(10), milliseconds(18), 1, 20);
  less.company.raise_all();
  less.company.run_to_end();
  EXPECT_EQ(less.share_of(1), 0.5);
  Branches more(milliseconds(10), milliseconds(22), 1, 20);
  more.company.raise_all();
  more.company.run_to_end();
  EXPECT_EQ(num_done(more.company), 1U);
  EXPECT_LE(more.share_of(1), 0.15) << "but what it had from the beginning";
}

TEST(CoordinatorSharing, NoticesThatAWorkerWithoutBranchesHasBecomeQuick) {
  Branches two(milliseconds(10), milliseconds(30), 1, 800);
  two.company.raise_all();
  for (int i = 0; i < 200; ++i) {
    two.company.run_one(0);
    two.company.run_one(1);
  }
  EXPECT_LE(two.share_of(1), 0.1);
  two.company.paces[1] = milliseconds(10);
  two.company.run_to_end();
  EXPECT_EQ(num_done(two.company), 1U);
  EXPECT_EQ(two.rows().back().second, 1);
  EXPECT_GE(two.share_of(1), 0.2);
}

TEST(CoordinatorSharing,
     LeavesBranchesWithAFasterWorkerWhenTheSlowOneComesBack) {
  Branches two(milliseconds(10), milliseconds(30), 1, 20);
  two.company.raise_all();
  for (int i = 0; i < 6; ++i) {
    two.company.run_one(0);
    two.company.run_one(1);
  }
  ASSERT_EQ(two.rows().back(), std::pair(1, 0)) << "worker 0 has both";
  two.company.kill(1);
  two.company.keeps_returned = true;
  two.company.raise(1);
  EXPECT_TRUE(two.company.returned.empty());
}

TEST(CoordinatorSharing, GivesALateWorkerItsBranch) {
  Company company({.kind = MethodKind::cfg}, 1, 1, {.workers = alike(1, 1)});
  company.raise(0);
  company.join(1, alike(1, 1));
  const std::size_t before = company.grants.size();
  company.keeps_returned = true;
  company.raise(1);
  ASSERT_EQ(company.returned.size(), 1U);
  EXPECT_EQ(num_granted(company, before, 1, 1), 0) << "before it is given back";
  company.keeps_returned = false;
  company.hear_returned();
  EXPECT_GE(num_granted(company, before, 1, 1), 1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
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
