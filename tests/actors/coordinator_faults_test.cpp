// Dead, silent and stopped workers, and samples that fail.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::Op;
using std::chrono::seconds;

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
  const std::size_t granted = company.grants.size();
  company.on(company.answer(old));
  EXPECT_EQ(company.grants.size(), granted);
  EXPECT_EQ(company.num_counted, 0U);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorPolicy, PassesOverWorkersThatTheJobHasNot) {
  Company company({.kind = MethodKind::batch}, 2, 3);
  company.raise_all();
  const std::size_t sent = company.grants.size();
  for (const int stranger : {-1, 2, 1 << 30}) {
    company.on(WorkerUp{stranger, 1});
    company.on(WorkerBeat{stranger, 1, 7, true});
    GrantResult result = company.answer(company.mailboxes[0].front());
    result.worker = stranger;
    CoordinatorPolicy& policy = company.policy();
    EXPECT_TRUE(policy.on(result, company.now).empty());
    company.on(WorkerDown{stranger, 1, {}});
  }
  EXPECT_EQ(company.grants.size(), sent);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 3U);
  EXPECT_EQ(company.end.recoveries, 0);
}

TEST(CoordinatorPolicy, FencesAWorkerWhoseAnswerHasTooFewOrTooManyResults) {
  for (const bool is_short : {true, false}) {
    Company company({.kind = MethodKind::batch}, 2, 6,
                    {.workers = alike(2, 3)});
    company.raise_all();
    GrantResult wrong = company.answer(company.take(0));
    auto& results = std::get<TasksDone>(wrong.outcome).results;
    if (is_short) {
      results.pop_back();
    } else {
      results.push_back(results.front());
    }
    company.on(wrong);
    EXPECT_EQ(company.fenced, std::vector<int>{0});
    company.mailboxes[0].clear();
    for (int i = 0; i < 1000 && company.times_ended == 0; ++i) {
      company.run_one(1);
    }
    EXPECT_EQ(num_done(company), 6U);
    EXPECT_FALSE(company.end.failure);
  }
}

TEST(CoordinatorPolicy, FencesAWorkerWhoseResultIsOfAnotherTask) {
  Company company({.kind = MethodKind::batch}, 2, 6, {.workers = alike(2, 3)});
  company.raise_all();
  GrantResult wrong = company.answer(company.take(0));
  auto& results = std::get<TasksDone>(wrong.outcome).results;
  ASSERT_GE(results.size(), 2U);
  ++results.back().id;
  company.hear(wrong);
  EXPECT_EQ(company.fenced, std::vector<int>{0});
  company.mailboxes[0].clear();
  for (int i = 0; i < 1000 && company.times_ended == 0; ++i) {
    company.run_one(1);
  }
  EXPECT_EQ(num_done(company), 6U);
  EXPECT_FALSE(company.end.failure);
}

TEST(CoordinatorPolicy, FencesAWorkerThatShowsNoLifeForItsLease) {
  Company company({.kind = MethodKind::batch}, 2, 4,
                  {.lease = {.least = seconds(10)}});
  company.raise_all();
  company.now += seconds(8);
  company.on(WorkerBeat{0, 1, 5});
  company.now += seconds(4);
  company.on(TimeTick{});
  EXPECT_EQ(company.fenced, std::vector<int>{1});
  company.mailboxes[1].clear();
  for (int i = 0; i < 1000 && company.times_ended == 0; ++i) {
    company.run_one(0);
  }
  EXPECT_EQ(num_done(company), 4U);
}

TEST(CoordinatorPolicy, ShowsPassesWhateverBecameOfThem) {
  Company company({.kind = MethodKind::batch}, 1, 2, {.workers = alike(1, 2)});
  company.raise_all();
  company.on(company.answer(company.take(0)));
  EXPECT_EQ(company.num_counted, 1U);
  company.on(company.fail(company.take(0), Errc::non_finite));
  EXPECT_EQ(company.num_counted, 2U);
}

TEST(CoordinatorPolicy, ShowsNothingOfAResultThatIsLate) {
  Company company({.kind = MethodKind::batch}, 2, 4,
                  {.lease = {.least = seconds(10)}});
  company.raise_all();
  const Grant grant = company.take(0);
  company.now += seconds(11);
  company.on(TimeTick{});
  ASSERT_EQ(company.fenced, (std::vector<int>{0, 1}));
  company.on(company.answer(grant));
  EXPECT_EQ(company.num_counted, 0U);
}

TEST(CoordinatorPolicy, ShowsNothingOfARunThatWasBegunAnewElsewhere) {
  Company company({.kind = MethodKind::batch}, 2, 3,
                  {.workers = {{.execution_class = 0}, {.execution_class = 1}},
                   .trajectory = true});
  company.raise_all();
  // The other class runs dry, and takes over what this worker sits on.
  const Grant slow = company.take(1);
  const std::pair anew(slow.tasks[0].sample_index, 1U);
  for (int i = 0; i < 100 && !company.workers_of_run.contains(anew); ++i) {
    company.now += std::chrono::milliseconds(10);
    company.run_one(0);
    while (!company.intermediates.empty()) {
      company.copy();
    }
  }
  ASSERT_TRUE(company.workers_of_run.contains(anew));
  company.on(company.answer(slow));
  EXPECT_TRUE(company.intermediates.empty());
}

TEST(CoordinatorPolicy, ABeatWithoutProgressDoesNotRenewTheLease) {
  Company company({.kind = MethodKind::batch}, 1, 1,
                  {.lease = {.least = seconds(10)}});
  company.raise_all();
  company.on(WorkerBeat{0, 1, 5});
  company.now += seconds(11);
  company.on(WorkerBeat{0, 1, 5});
  company.on(TimeTick{});
  EXPECT_EQ(company.fenced, std::vector<int>{0});
}

TEST(CoordinatorPolicy, MarksASampleFailedAndGoesOn) {
  Company company({.kind = MethodKind::batch}, 1, 3);
  company.raise_all();
  while (company.times_ended == 0) {
    const Grant grant = company.take(0);
    const bool bad = grant.tasks[0].sample_index == 1 &&
                     samplers::step_of(grant.tasks[0].task).has_value();
    company.on(bad ? company.fail(grant, Errc::non_finite)
                   : company.answer(grant));
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
  company.on(company.fail(bad, Errc::non_finite));
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
      company.on(is_late ? company.fail(grant, Errc::internal)
                         : company.answer(grant));
    }
  }
  EXPECT_GT(outlived, 0);
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorPolicy, FindsTheRowAtFaultByRunningEachAlone) {
  Company company({.kind = MethodKind::batch}, 1, 4, {.workers = alike(1, 4)});
  company.raise_all();
  bool saw_group = false;
  while (company.times_ended == 0) {
    const Grant grant = company.take(0);
    saw_group = saw_group || grant.tasks.size() > 1;
    const bool bad = std::any_of(
        grant.tasks.begin(), grant.tasks.end(),
        [](const SampleTask& work) { return work.sample_index == 2; });
    company.on(bad ? company.fail(grant, Errc::non_finite)
                   : company.answer(grant));
  }
  EXPECT_TRUE(saw_group);
  EXPECT_EQ(num_done(company), 3U);
}

TEST(CoordinatorPolicy, EndsTheJobWhenTheFirstSixteenSamplesFail) {
  for (const bool keep_going : {false, true}) {
    Company company({.kind = MethodKind::batch}, 1, 100,
                    {.keep_going = keep_going});
    company.raise_all();
    int answers = 0;
    for (; company.times_ended == 0; ++answers) {
      company.on(company.fail(company.take(0), Errc::non_finite));
    }
    EXPECT_EQ(answers, keep_going ? 100 : 16);
    EXPECT_EQ(company.end.unfinished.size(), keep_going ? 0U : 84U);
    ASSERT_EQ(company.end.failure.has_value(), !keep_going);
    if (company.end.failure) {
      EXPECT_EQ(company.end.failure->code, Errc::non_finite);
    }
  }
}

TEST(CoordinatorPolicy, EndsTheJobOnAnErrorThatIsNotASamples) {
  Company company({.kind = MethodKind::batch}, 1, 4);
  company.raise_all();
  company.on(company.fail(company.take(0), Errc::out_of_memory));
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
        {.workers = alike(workers, *rc::gen::inRange(1, 4)), .max_losses = 0});
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

}  // namespace
}  // namespace troupe::actors
