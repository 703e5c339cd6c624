// Which worker gets a task, and which reports follow.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::Op;

TEST(CoordinatorPolicy, WaitsForWorkersThatComeUpBeforeItsFirstTick) {
  Company company({.kind = MethodKind::batch}, 2, 4);
  company.raise(0);
  EXPECT_TRUE(company.mailboxes[0].empty());
  company.raise(1);
  EXPECT_FALSE(company.mailboxes[0].empty());
  EXPECT_FALSE(company.mailboxes[1].empty());
}

TEST(CoordinatorPolicy, BeginsWithAGroupThatIsWhole) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 4, 2);
  company.raise(0);
  company.raise(2);
  company.on(TimeTick{});
  EXPECT_TRUE(company.grants.empty()) << "no group is whole";
  company.raise(3);
  company.on(TimeTick{});
  ASSERT_FALSE(company.grants.empty());
  std::set<int> granted;
  for (const Grant& grant : company.grants) {
    granted.insert(grant.worker);
  }
  EXPECT_EQ(granted, (std::set<int>{2, 3}));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
}

TEST(CoordinatorPolicy, EndsAJobWithoutSamplesWhoeverIsUp) {
  Company company({.kind = MethodKind::batch}, 2, 0);
  company.raise(0);
  EXPECT_EQ(company.times_ended, 0);
  company.on(TimeTick{});
  EXPECT_EQ(company.times_ended, 1);
}

TEST(CoordinatorPolicy, BeginsWithoutAWorkerThatNeverComes) {
  Company company({.kind = MethodKind::batch}, 2, 4);
  company.raise(0);
  company.on(WorkerDown{1, 1});
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
}

TEST(CoordinatorPolicy, GrantsTasksWhoseInputsAreThere) {
  Company company({.kind = MethodKind::picard, .window_size = 4}, 2, 6,
                  {.workers = alike(2, 2)});
  company.raise_all();
  // The windows of all samples in flight, in grants of 16 tasks at most.
  std::map<std::uint64_t, std::map<Op, int>> tasks;
  for (const Grant& grant : company.grants) {
    EXPECT_LE(grant.tasks.size(), 16U);
    EXPECT_EQ(grant.max_rows, 2);
    for (const SampleTask& work : grant.tasks) {
      ++tasks[work.sample_index][work.task.op];
    }
  }
  EXPECT_GE(tasks.size(), 2U);
  for (const auto& [sample, count] : tasks) {
    EXPECT_EQ(count, (std::map<Op, int>{{Op::evaluate, 4}})) << sample;
  }
}

/// Of rows that spread, where news of their inputs takes long beside a row.
TEST(CoordinatorPolicy, GrantsSweepsAheadOfShortRowsAlone) {
  for (const int ms : {2, 200}) {
    Company company({.kind = MethodKind::picard, .window_size = 4}, 1, 1,
                    {.workers = alike(1, 1)});
    company.grant_duration = std::chrono::milliseconds(ms);
    company.raise_all();
    company.run_one(0);
    std::map<Op, int> count;
    for (const Grant& grant : company.grants) {
      for (const SampleTask& work : grant.tasks) {
        ++count[work.task.op];
      }
    }
    // The sweep of the evaluation that is done has its inputs.
    EXPECT_EQ(count[Op::sweep], ms < 20 ? 4 : 1) << ms;
    company.run_to_end();
    EXPECT_EQ(num_done(company), 1U);
  }
}

TEST(CoordinatorPolicy, GrantsTheCallsOfASampleAhead) {
  Company company({.kind = MethodKind::sequential}, 1, 1);
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  const auto num_granted = [&company] {
    std::size_t count = 0;
    for (const Grant& grant : company.grants) {
      count += grant.tasks.size();
    }
    return count;
  };
  // Two calls at least, and with them what their worker comes to in 20 ms.
  EXPECT_GE(num_granted(), 2U);
  EXPECT_LT(num_granted(), 5U);
  EXPECT_EQ(company.mailboxes[0].size(), 1U) << "the others wait for it";
  EXPECT_FALSE(company.grants.back().sources.empty());
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorPolicy, GivesNoNumberToTwoTasks) {
  Company company({.kind = MethodKind::cfg}, 3, 9);
  company.raise_all();
  company.run_one(0);
  company.kill(1);
  company.raise(1);
  company.run_to_end();
  std::set<std::uint64_t> numbers;
  for (const Grant& grant : company.grants) {
    for (const SampleTask& work : grant.tasks) {
      EXPECT_TRUE(numbers.insert(work.grant).second);
    }
  }
}

TEST(CoordinatorPolicy, SaysWhereInputsWillComeFromWhenTheirMakerIsLost) {
  CoordinatorOptions options;
  for (int process : {0, 1, 2}) {
    options.workers.push_back({.process = process});
  }
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 3, 1,
                  options);
  company.raise_all();
  // The second segment waits for the first, in the other process.
  const Grant first = company.take(0);
  const samplers::Slot boundary = first.tasks[0].task.outputs[0];
  ASSERT_TRUE(company.mailboxes[1].empty());
  const SampleTask& waiting = company.grants.at(1).tasks.at(0);
  ASSERT_EQ(waiting.task.inputs[0], boundary);
  EXPECT_TRUE(company.redirects.empty());
  company.kill(0);
  const auto redirect =
      std::ranges::find(company.redirects, waiting.grant, &Redirect::grant);
  ASSERT_NE(redirect, company.redirects.end());
  EXPECT_EQ(redirect->worker, 1);
  EXPECT_EQ(redirect->epoch, company.epochs[1]);
  ASSERT_EQ(redirect->sources.size(), 1U);
  EXPECT_EQ(redirect->sources[0].name, (ValueName{0, 0, boundary}));
  EXPECT_NE(redirect->sources[0].process, 0);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
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
                  {.workers = alike(2, 4)});
  company.raise_all();
  ASSERT_EQ(company.mailboxes[0].size(), 1U);
  ASSERT_EQ(company.mailboxes[1].size(), 1U);
  EXPECT_EQ(company.mailboxes[0][0].tasks.size(), 2U);
  EXPECT_EQ(company.mailboxes[1][0].tasks.size(), 2U);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorPolicy, PutsARowWhereItWouldBeDoneFirst) {
  // A row takes 30 ms on worker 0 and 10 ms on worker 1. The first round, which
  // both take part in, shows the speeds. Sweeps take no time.
  Company company({.kind = MethodKind::picard, .window_size = 3}, 2, 1,
                  {.workers = alike(2, 1)});
  company.raise_all();
  std::map<int, std::vector<int>> rows;  // calls, by worker
  std::set<int> sweepers;
  const auto look_at_grants = [&] {
    for (const Grant& grant : company.grants) {
      for (const SampleTask& work : grant.tasks) {
        if (work.task.op == Op::sweep) {
          sweepers.insert(grant.worker);
        } else {
          rows[grant.worker].push_back(work.task.from);
        }
      }
    }
    company.grants.clear();
  };
  look_at_grants();
  EXPECT_EQ(rows, (std::map<int, std::vector<int>>{{0, {1}}, {1, {0, 2}}}));
  rows.clear();
  while (rows.empty()) {
    for (const int worker : {1, 0}) {
      if (company.mailboxes[static_cast<std::size_t>(worker)].empty()) {
        continue;
      }
      const Grant pass = company.take(worker);
      const bool is_sweep = pass.tasks[0].task.op == Op::sweep;
      company.grant_duration = std::chrono::milliseconds(is_sweep      ? 0
                                                         : worker == 0 ? 30
                                                                       : 10);
      company.now += company.grant_duration;
      company.on(company.answer(pass));
    }
    look_at_grants();
  }
  EXPECT_EQ(rows, (std::map<int, std::vector<int>>{{1, {3, 4}}}));
  EXPECT_EQ(sweepers, std::set<int>{0}) << "the sample's home";
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

TEST(CoordinatorPolicy, CountsTheBlocksOfTheForwardThatRuns) {
  Company company({.kind = MethodKind::sequential}, 1, 1,
                  {.ticks_per_call = 8});
  company.raise_all();
  const auto beat = [&](std::uint64_t ticks) {
    company.now += std::chrono::milliseconds(250);
    company.on(WorkerBeat{0, 1, ticks});
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
    GrantResult result = company.answer(company.take(0));
    result.ticks = 8;
    company.on(result);
  }
  EXPECT_EQ(company.progress.calls_done, 1);
  EXPECT_DOUBLE_EQ(company.progress.calls_under_way, 0.0);
  company.now += std::chrono::milliseconds(250);
  company.on(WorkerBeat{0, 1, 12});
  EXPECT_DOUBLE_EQ(company.progress.calls_under_way, 0.5);
}

/// Runs a job whose workers answer `together` passes at a time; returns the
/// grants that were sent.
std::size_t grants_of_answers(std::size_t together, std::size_t samples) {
  Company company({.kind = MethodKind::batch}, 3, samples,
                  {.workers = alike(3, 4)});
  company.raise_all();
  std::mt19937 random(7);
  while (company.times_ended == 0) {
    std::vector<CoordinatorEvent> answers;
    while (answers.size() < together) {
      const int worker = static_cast<int>(random() % 3);
      if (company.mailboxes[static_cast<std::size_t>(worker)].empty()) {
        break;
      }
      answers.emplace_back(company.answer(company.take(worker)));
    }
    if (!answers.empty()) {
      company.on_all(answers);
    }
  }
  EXPECT_EQ(num_done(company), samples) << together;
  for (const Grant& grant : company.grants) {
    EXPECT_LE(grant.tasks.size(), 16U);
    EXPECT_FALSE(grant.tasks.empty());
  }
  return company.grants.size();
}

TEST(CoordinatorPolicy, SendsTheGrantsOfSeveralResultsTogether) {
  EXPECT_LT(grants_of_answers(4, 200), grants_of_answers(1, 200));
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

TEST(Plan, GroupsWorkersByPartsAndKeepsTheRest) {
  const auto groups = group_workers(std::vector<int>(5), 2);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[1].workers, (std::vector<int>{2, 3}));
  EXPECT_EQ(groups[2].workers, (std::vector<int>{4}));
}

}  // namespace
}  // namespace troupe::actors
