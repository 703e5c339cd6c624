#include "actors/coordinator_policy.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>
#include <random>
#include <set>

#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::Op;
using std::chrono::seconds;

const samplers::Schedule& short_schedule() {
  static const samplers::Schedule schedule(ddim_steps(5));
  return schedule;
}

/// The policy with workers that answer when told, and compute nothing.
class Company {
 public:
  Company(MethodOptions method, int workers, std::uint64_t samples,
          CoordinatorOptions options = {})
      : mailboxes(static_cast<std::size_t>(workers)),
        epochs(static_cast<std::size_t>(workers), 0),
        policy_([&] {
          for (std::uint64_t i = 0; i < samples; ++i) {
            options.samples.push_back(i);
          }
          options.make_method = [method] {
            return make_method(method, short_schedule());
          };
          options.kind = method.kind;
          options.num_workers = workers;
          return options;
        }()) {}

  void on(const CoordinatorEvent& event) {
    for (CoordinatorCommand& command : policy_.on(event, now)) {
      if (auto* grant = std::get_if<Grant>(&command)) {
        const auto w = static_cast<std::size_t>(grant->worker);
        for (const SampleTask& work : grant->tasks) {
          if (work.task.op == Op::step) {
            step_workers[work.sample_index].insert(grant->worker);
          }
        }
        mailboxes[w].push_back(std::move(*grant));
        deepest = std::max(deepest, mailboxes[w].size());
      } else if (auto* ended = std::get_if<EndSample>(&command)) {
        reports.push_back(ended->report);
      } else if (auto* over = std::get_if<EndJob>(&command)) {
        ++times_ended;
        end = std::move(*over);
      } else if (auto* report = std::get_if<ReportProgress>(&command)) {
        progress = report->progress;
      } else if (auto* fence = std::get_if<FenceWorker>(&command)) {
        fenced.push_back(fence->worker);
      }
    }
  }

  void raise(int worker) {
    on(WorkerUp{worker, ++epochs[static_cast<std::size_t>(worker)]});
  }
  void raise_all() {
    for (std::size_t w = 0; w < mailboxes.size(); ++w) {
      raise(static_cast<int>(w));
    }
  }
  void kill(int worker) {
    mailboxes[static_cast<std::size_t>(worker)].clear();
    on(WorkerDown{worker, epochs[static_cast<std::size_t>(worker)]});
  }

  [[nodiscard]] static GrantResult answer(const Grant& grant) {
    GrantResult result;
    result.id = grant.id;
    result.worker = grant.worker;
    result.epoch = grant.epoch;
    for (const SampleTask& work : grant.tasks) {
      samplers::TaskResult one{work.task.id, work.task.version, {}};
      if (work.task.op == Op::sweep) {
        for (int i = work.task.from; i < work.task.to; ++i) {
          one.scalars.insert(one.scalars.end(), {0.0, 1.0});
        }
      }
      result.results.push_back(one);
    }
    return result;
  }
  static GrantResult fail(const Grant& grant, Errc code) {
    GrantResult result = answer(grant);
    result.results.clear();
    result.failure = Failure{code, "test", "made to fail", {}};
    return result;
  }

  [[nodiscard]] Grant take(int worker) {
    auto& box = mailboxes[static_cast<std::size_t>(worker)];
    Grant grant = box.front();
    box.pop_front();
    return grant;
  }
  bool run_one(int worker) {
    if (mailboxes[static_cast<std::size_t>(worker)].empty()) {
      return false;
    }
    on(answer(take(worker)));
    return true;
  }
  /// Lets workers answer in an order that the seed decides.
  void run_to_end(std::uint32_t seed = 1) {
    std::mt19937 random(seed);
    for (int i = 0; i < 100000 && times_ended == 0; ++i) {
      run_one(static_cast<int>(random() % mailboxes.size()));
    }
  }

  TimePoint now{};
  std::vector<std::deque<Grant>> mailboxes;
  std::vector<std::uint32_t> epochs;
  std::map<std::uint64_t, std::set<int>> step_workers;
  std::vector<SampleReport> reports;
  std::vector<int> fenced;
  JobProgress progress;
  std::size_t deepest = 0;
  int times_ended = 0;
  EndJob end;

 private:
  CoordinatorPolicy policy_;
};

std::size_t num_done(const Company& company) {
  return static_cast<std::size_t>(std::count_if(
      company.reports.begin(), company.reports.end(),
      [](const auto& r) { return r.status == SampleStatus::done; }));
}

TEST(CoordinatorPolicy, WaitsForEveryWorkerBeforeItBegins) {
  Company company({.kind = MethodKind::batch}, 2, 4);
  company.raise(0);
  EXPECT_TRUE(company.mailboxes[0].empty());
  company.raise(1);
  EXPECT_FALSE(company.mailboxes[0].empty());
  EXPECT_FALSE(company.mailboxes[1].empty());
}

TEST(CoordinatorPolicy, BeginsWithoutAWorkerThatNeverComes) {
  Company company({.kind = MethodKind::batch}, 2, 4);
  company.raise(0);
  company.on(WorkerDown{1, 1});
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
}

TEST(CoordinatorPolicy, QueuesTwoGrantsPerWorkerAndNoMore) {
  Company company({.kind = MethodKind::batch}, 3, 30);
  company.raise_all();
  for (const auto& box : company.mailboxes) {
    EXPECT_EQ(box.size(), 2U);
  }
  company.run_to_end();
  EXPECT_EQ(company.deepest, 2U);
}

TEST(CoordinatorPolicy, GivesMoreSamplesToAFasterWorker) {
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

TEST(CoordinatorPolicy, KeepsABatchSampleOnOneWorkerUntilTheLastOnes) {
  Company company({.kind = MethodKind::batch}, 2, 20);
  company.raise_all();
  company.run_to_end();
  for (std::uint64_t i = 0; i < 14; ++i) {
    EXPECT_EQ(company.step_workers[i].size(), 1U) << i;
  }
}

TEST(CoordinatorPolicy, RunsPartsOfAPipelineOnTheirWorkers) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 4);
  company.raise_all();
  std::mt19937 random(3);
  for (int i = 0; i < 100000 && company.times_ended == 0; ++i) {
    const int w = static_cast<int>(random() % 2);
    for (const Grant& grant : company.mailboxes[static_cast<std::size_t>(w)]) {
      for (const SampleTask& work : grant.tasks) {
        if (work.task.op == Op::segment) {
          ASSERT_EQ(work.task.segment, w);
        }
      }
    }
    company.run_one(w);
  }
  EXPECT_EQ(num_done(company), 4U);
}

TEST(CoordinatorPolicy, SpreadsAPicardWindowOverTheWorkers) {
  Company company({.kind = MethodKind::picard, .window_size = 4}, 2, 1,
                  {.max_rows = 4});
  company.raise_all();
  ASSERT_EQ(company.mailboxes[0].size(), 1U);
  ASSERT_EQ(company.mailboxes[1].size(), 1U);
  EXPECT_EQ(company.mailboxes[0][0].tasks.size(), 2U);
  EXPECT_EQ(company.mailboxes[1][0].tasks.size(), 2U);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorPolicy, PutsTheBranchesOfCfgOnTwoWorkers) {
  Company company({.kind = MethodKind::cfg}, 2, 1);
  company.raise_all();
  ASSERT_EQ(company.mailboxes[0].size(), 1U);
  ASSERT_EQ(company.mailboxes[1].size(), 1U);
  EXPECT_EQ(company.mailboxes[0][0].tasks[0].task.branch,
            samplers::Branch::cond);
  EXPECT_EQ(company.mailboxes[1][0].tasks[0].task.branch,
            samplers::Branch::uncond);
}

TEST(CoordinatorPolicy, HoldsFreesBackSoThatATaskCanRunAgain) {
  Company company({.kind = MethodKind::batch}, 1, 1);
  company.raise_all();
  company.run_one(0);
  ASSERT_EQ(company.mailboxes[0][0].tasks[0].task.op, Op::step);
  EXPECT_TRUE(company.mailboxes[0][0].tasks[0].task.frees.empty());
}

TEST(CoordinatorPolicy, GivesTheWorkOfADeadWorkerToOthers) {
  Company company({.kind = MethodKind::batch}, 2, 6);
  company.raise_all();
  company.run_one(0);
  company.kill(1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 6U);
  EXPECT_EQ(company.end.recoveries, 1);
  EXPECT_FALSE(company.end.failure);
}

TEST(CoordinatorPolicy, WaitsWhenNobodyIsAliveAndGoesOnAfterwards) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 3);
  company.raise_all();
  company.kill(0);
  company.kill(1);
  EXPECT_EQ(company.times_ended, 0);
  company.raise(1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 3U);
}

TEST(CoordinatorPolicy, DropsResultsOfAnEarlierIncarnation) {
  Company company({.kind = MethodKind::batch}, 1, 1);
  company.raise_all();
  const Grant old = company.mailboxes[0][0];
  company.kill(0);
  company.raise(0);
  const std::size_t waiting = company.mailboxes[0].size();
  company.on(Company::answer(old));
  EXPECT_EQ(company.mailboxes[0].size(), waiting);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorPolicy, GivesUpATaskThatIsLostThreeTimes) {
  Company company({.kind = MethodKind::batch}, 1, 1);
  for (int i = 0; i < 3; ++i) {
    company.raise(0);
    company.kill(0);
  }
  ASSERT_EQ(company.times_ended, 1);
  ASSERT_TRUE(company.end.failure);
  EXPECT_EQ(company.end.failure->code, Errc::job_failed);
}

TEST(CoordinatorPolicy, FencesAWorkerThatShowsNoLifeForItsLease) {
  Company company({.kind = MethodKind::batch}, 2, 4, {.lease = seconds(10)});
  company.raise_all();
  company.now += seconds(8);
  company.on(WorkerBeat{0, 1, 5, 0, {}});
  company.now += seconds(4);
  company.on(TimeTick{});
  EXPECT_EQ(company.fenced, std::vector<int>{1});
  company.mailboxes[1].clear();
  for (int i = 0; i < 1000 && company.times_ended == 0; ++i) {
    company.run_one(0);
  }
  EXPECT_EQ(num_done(company), 4U);
}

TEST(CoordinatorPolicy, ABeatWithoutProgressDoesNotRenewTheLease) {
  Company company({.kind = MethodKind::batch}, 1, 1, {.lease = seconds(10)});
  company.raise_all();
  company.on(WorkerBeat{0, 1, 5, 0, {}});
  company.now += seconds(11);
  company.on(WorkerBeat{0, 1, 5, 0, {}});
  company.on(TimeTick{});
  EXPECT_EQ(company.fenced, std::vector<int>{0});
}

TEST(CoordinatorPolicy, CountsTheBlocksOfTheForwardThatRuns) {
  Company company({.kind = MethodKind::sequential}, 1, 1,
                  {.ticks_per_call = 8});
  company.raise_all();
  const auto beat = [&](std::uint64_t ticks) {
    company.now += std::chrono::milliseconds(250);
    company.on(WorkerBeat{0, 1, ticks, 0, {}});
    return company.progress.calls_under_way;
  };
  EXPECT_DOUBLE_EQ(beat(2), 0.25);
  EXPECT_DOUBLE_EQ(beat(6), 0.75);
  // More than a forward has is still one call.
  EXPECT_DOUBLE_EQ(beat(20), 1.0);
  EXPECT_EQ(company.progress.calls_done, 0);
}

TEST(CoordinatorPolicy, BeginsANewCallWithNothingUnderWay) {
  Company company({.kind = MethodKind::sequential}, 1, 1,
                  {.ticks_per_call = 8});
  company.raise_all();
  while (company.progress.calls_done == 0) {
    company.now += std::chrono::milliseconds(250);
    GrantResult result = Company::answer(company.take(0));
    result.ticks = 8;
    company.on(result);
  }
  EXPECT_EQ(company.progress.calls_done, 1);
  EXPECT_DOUBLE_EQ(company.progress.calls_under_way, 0.0);
  company.now += std::chrono::milliseconds(250);
  company.on(WorkerBeat{0, 1, 12, 0, {}});
  EXPECT_DOUBLE_EQ(company.progress.calls_under_way, 0.5);
}

TEST(CoordinatorPolicy, MarksASampleFailedAndGoesOn) {
  Company company({.kind = MethodKind::batch}, 1, 3);
  company.raise_all();
  while (company.times_ended == 0) {
    const Grant grant = company.take(0);
    const bool bad =
        grant.tasks[0].sample_index == 1 && grant.tasks[0].task.op == Op::step;
    company.on(bad ? Company::fail(grant, Errc::non_finite)
                   : Company::answer(grant));
  }
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_EQ(company.end.progress.samples_failed, 1U);
  EXPECT_FALSE(company.end.failure);
}

TEST(CoordinatorPolicy, GoesOnWhenAGrantOutlivesItsFailedSample) {
  // The windows of both samples lie on both workers.
  Company company({.kind = MethodKind::picard, .window_size = 4}, 2, 2);
  company.raise_all();
  const Grant bad = company.take(0);
  ASSERT_EQ(bad.tasks.size(), 1U);
  const std::uint64_t failed = bad.tasks[0].sample_index;
  company.on(Company::fail(bad, Errc::non_finite));
  int outlived = 0;
  while (company.times_ended == 0) {
    for (int worker : {0, 1}) {
      if (company.mailboxes[static_cast<std::size_t>(worker)].empty()) {
        continue;
      }
      const Grant grant = company.take(worker);
      const bool is_late = grant.tasks[0].sample_index == failed;
      outlived += is_late ? 1 : 0;
      // Its slots are gone: the worker finds them empty.
      company.on(is_late ? Company::fail(grant, Errc::internal)
                         : Company::answer(grant));
    }
  }
  EXPECT_GT(outlived, 0);
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorPolicy, FindsTheRowAtFaultByRunningEachAlone) {
  Company company({.kind = MethodKind::batch}, 1, 4, {.max_rows = 4});
  company.raise_all();
  bool saw_group = false;
  while (company.times_ended == 0) {
    const Grant grant = company.take(0);
    saw_group = saw_group || grant.tasks.size() > 1;
    const bool bad = std::any_of(
        grant.tasks.begin(), grant.tasks.end(),
        [](const SampleTask& work) { return work.sample_index == 2; });
    company.on(bad ? Company::fail(grant, Errc::non_finite)
                   : Company::answer(grant));
  }
  EXPECT_TRUE(saw_group);
  EXPECT_EQ(num_done(company), 3U);
}

TEST(CoordinatorPolicy, EndsTheJobWhenEverySampleFails) {
  Company company({.kind = MethodKind::batch}, 1, 100);
  company.raise_all();
  int answers = 0;
  for (; company.times_ended == 0; ++answers) {
    company.on(Company::fail(company.take(0), Errc::non_finite));
  }
  EXPECT_EQ(answers, 3);
  ASSERT_TRUE(company.end.failure);
  EXPECT_EQ(company.end.failure->code, Errc::non_finite);
  EXPECT_EQ(company.end.unfinished.size(), 97U);
}

TEST(CoordinatorPolicy, EndsTheJobOnAnErrorThatIsNotASamples) {
  Company company({.kind = MethodKind::batch}, 1, 4);
  company.raise_all();
  company.on(Company::fail(company.take(0), Errc::out_of_memory));
  ASSERT_EQ(company.times_ended, 1);
  EXPECT_EQ(company.end.failure->code, Errc::out_of_memory);
}

TEST(CoordinatorPolicy, GivesNoGrantAfterAStop) {
  Company company({.kind = MethodKind::batch}, 2, 9);
  company.raise_all();
  for (int i = 0; i < 40; ++i) {
    company.run_one(0);
  }
  const std::size_t done = num_done(company);
  ASSERT_GT(done, 0U);
  company.on(StopRequested{});
  EXPECT_TRUE(company.end.stopped);
  EXPECT_EQ(company.end.unfinished.size(), 9 - done);
  const std::size_t waiting = company.mailboxes[0].size();
  company.run_one(0);
  EXPECT_EQ(company.mailboxes[0].size() + 1, waiting);
  EXPECT_EQ(company.times_ended, 1);
}

TEST(CoordinatorPolicy, EndsAtOnceWhenNothingIsWanted) {
  Company company({.kind = MethodKind::batch}, 1, 0);
  company.raise_all();
  EXPECT_EQ(company.times_ended, 1);
  EXPECT_FALSE(company.end.stopped);
}

TEST(CoordinatorPolicy, RefusesNoWorkers) {
  EXPECT_THROW(Company({.kind = MethodKind::batch}, 0, 1), Error);
}

TEST(CoordinatorPolicy, FinishesEverySampleOnceWhateverTheOrderAndTheDeaths) {
  rc::check([] {
    const auto kind = *rc::gen::element(
        MethodKind::sequential, MethodKind::batch, MethodKind::cfg,
        MethodKind::picard, MethodKind::pipeline, MethodKind::stale);
    const int workers = *rc::gen::inRange(1, 5);
    const auto samples = *rc::gen::inRange<std::uint64_t>(1, 8);
    std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
    Company company(
        {.kind = kind, .window_size = 3, .num_segments = 3}, workers, samples,
        {.max_rows = *rc::gen::inRange(1, 4), .max_attempts = 1000});
    company.raise_all();
    for (int i = 0; i < 100000 && company.times_ended == 0; ++i) {
      const int w = static_cast<int>(random() % static_cast<unsigned>(workers));
      if (random() % 20 == 0) {
        company.kill(w);
        company.raise(w);
      } else {
        company.run_one(w);
      }
    }
    std::set<std::uint64_t> seen;
    for (const SampleReport& report : company.reports) {
      RC_ASSERT(report.status == SampleStatus::done);
      RC_ASSERT(report.progress.accepted == 5);
      RC_ASSERT(seen.insert(report.sample_index).second);
    }
    RC_ASSERT(seen.size() == samples);
    RC_ASSERT(company.times_ended == 1);
    RC_ASSERT(company.end.progress.calls_done ==
              company.end.progress.calls_total);
  });
}

TEST(Plan, GroupsWorkersByPartsAndKeepsTheRest) {
  const auto groups = group_workers(5, 2);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[1].workers, (std::vector<int>{2, 3}));
  EXPECT_EQ(groups[2].workers, (std::vector<int>{4}));
}

}  // namespace
}  // namespace troupe::actors
