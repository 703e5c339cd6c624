// Processes that join a job, and processes that drain.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

/// The first worker in the coordinator's process, each other in its own.
CoordinatorOptions apart(int workers) {
  CoordinatorOptions options;
  for (int w = 0; w < workers; ++w) {
    options.workers.push_back({.process = w});
  }
  return options;
}

/// All that the worker was granted and has not answered.
std::vector<std::uint64_t> granted_to(const Company& company, int worker) {
  std::vector<std::uint64_t> numbers;
  for (const Grant& grant : company.grants) {
    for (const SampleTask& task : grant.tasks) {
      if (grant.worker == worker) {
        numbers.push_back(task.grant);
      }
    }
  }
  return numbers;
}

TEST(Members, GiveBackWhatTheyHaveNotBegunBeforeOthersGetIt) {
  Company company({.kind = MethodKind::batch}, 2, 8, apart(2));
  company.keeps_returned = true;
  company.raise_all();
  const std::size_t held = granted_to(company, 1).size();
  const std::size_t sent = company.grants.size();
  company.on(DrainProcess{1});
  // What it has begun stays; of the rest nobody else got anything yet.
  ASSERT_EQ(company.returned.size(), 1U);
  EXPECT_EQ(company.grants.size(), sent);
  const std::size_t begun = company.mailboxes[1].size();
  EXPECT_EQ(company.returned[0].grants.size() + begun, held);
  company.on(company.returned[0]);
  EXPECT_GT(company.grants.size(), sent);
  EXPECT_EQ(company.grants.back().worker, 0);
  EXPECT_TRUE(company.released.empty()) << "it still works";
}

TEST(Members, LeaveWhenAllTheyHoldIsAtHome) {
  Company company({.kind = MethodKind::batch}, 2, 4, apart(2));
  company.keeps_returned = true;
  company.raise_all();
  company.run_one(1);
  company.on(DrainProcess{1});
  company.on(company.returned.front());
  while (company.run_one(1)) {
  }
  ASSERT_FALSE(company.fetches.empty());
  EXPECT_TRUE(company.fetches.front().is_rescue);
  EXPECT_TRUE(company.released.empty());
  answer_fetches(company);
  EXPECT_EQ(company.released, std::vector<int>{1});
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
  EXPECT_EQ(company.end.recoveries, 0);
  EXPECT_TRUE(company.end.lost.empty());
  for (const auto& [run, workers] : company.workers_of_run) {
    EXPECT_EQ(run.second, 0U) << "no sample went back";
  }
}

TEST(Members, ThatEndWhileTheyLeaveAreLost) {
  Company company({.kind = MethodKind::batch}, 2, 4, apart(2));
  company.raise_all();
  company.run_one(1);
  company.on(DrainProcess{1});
  company.forget(1);
  company.on(ProcessDown{1, {Errc::job_failed, "process", "ended", {}}});
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
  ASSERT_EQ(company.end.lost.size(), 1U);
  EXPECT_EQ(company.end.lost[0].process, 1) << "no device of the coordinator's";
  EXPECT_TRUE(company.released.empty());
}

TEST(Members, GetNothingMoreWhenTheyAreStartedAgain) {
  Company company({.kind = MethodKind::batch}, 2, 4, apart(2));
  company.raise_all();
  company.on(DrainProcess{1});
  company.kill(1);
  const std::size_t granted = granted_to(company, 1).size();
  company.raise(1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
  EXPECT_EQ(granted_to(company, 1).size(), granted);
}

TEST(Members, OfTheCoordinatorsProcessStay) {
  Company company({.kind = MethodKind::batch}, 2, 2, apart(2));
  company.keeps_returned = true;
  company.raise_all();
  company.on(DrainProcess{kHomeProcess});
  EXPECT_TRUE(company.returned.empty());
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_TRUE(company.released.empty());
}

TEST(Members, EndTheJobWhenTheLastThatStaysIsLost) {
  CoordinatorOptions options = apart(2);
  options.workers[0].process = 2;
  Company company({.kind = MethodKind::batch}, 2, 4, options);
  company.raise_all();
  company.on(DrainProcess{1});
  company.forget(0);
  company.on(ProcessDown{2, {Errc::job_failed, "process", "ended", {}}});
  ASSERT_EQ(company.times_ended, 1);
  ASSERT_TRUE(company.end.failure);
  EXPECT_EQ(company.end.failure->message, "ended");
}

TEST(Members, EndTheJobWhenTheLastOfThemLeaves) {
  CoordinatorOptions options = apart(2);
  options.workers[0].process = 1;
  Company company({.kind = MethodKind::batch}, 2, 2, options);
  company.raise_all();
  company.on(DrainProcess{1});
  ASSERT_EQ(company.times_ended, 1);
  ASSERT_TRUE(company.end.failure);
  EXPECT_NE(company.end.failure->message.find("last worker"),
            std::string::npos);
}

/// Samples that the worker was granted tasks of.
std::set<std::uint64_t> samples_of(const Company& company, int worker) {
  std::set<std::uint64_t> samples;
  for (const auto& [run, workers] : company.workers_of_run) {
    if (workers.contains(worker)) {
      samples.insert(run.first);
    }
  }
  return samples;
}

TEST(Joiners, GetSamplesThatHaveNotBegun) {
  Company company({.kind = MethodKind::batch}, 1, 12, apart(1));
  company.raise_all();
  const std::size_t begun = company.workers_of_run.size();
  ASSERT_LT(begun, 6U);
  company.join(7, alike(2, 2));
  ASSERT_EQ(company.admitted.size(), 1U);
  EXPECT_EQ(company.admitted[0].process, 7);
  EXPECT_EQ(company.admitted[0].first_worker, 1);
  EXPECT_EQ(company.workers_of_run.size(), begun) << "nobody of them is up";
  company.raise(2);
  EXPECT_EQ(samples_of(company, 2).size(),
            company.workers_of_run.size() - begun);
  EXPECT_TRUE(samples_of(company, 1).empty());
  company.raise(1);
  EXPECT_FALSE(samples_of(company, 1).empty());
  company.run_to_end();
  EXPECT_EQ(num_done(company), 12U);
  EXPECT_EQ(company.end.recoveries, 0);
}

TEST(Joiners, TakeOverWhatOthersHave) {
  CoordinatorOptions options = apart(1);
  options.workers[0].max_rows = 8;
  Company company({.kind = MethodKind::batch}, 1, 8, options);
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  ASSERT_EQ(company.workers_of_run.size(), 8U);
  company.join(1, alike(1, 8));
  company.raise(1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 8U);
  EXPECT_GE(samples_of(company, 1).size(), 4U);
  for (const auto& [run, workers] : company.workers_of_run) {
    EXPECT_EQ(run.second, 0U) << "no sample went back";
  }
}

TEST(Joiners, TakeRowsOfWindows) {
  Company company({.kind = MethodKind::picard, .window_size = 2}, 1, 1,
                  apart(1));
  company.raise_all();
  company.join(1, alike(1, 2));
  company.raise(1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_FALSE(granted_to(company, 1).empty());
}

TEST(Joiners, AreRefusedWhereTheyHaveGoneOrTheirPlaceIsTaken) {
  Company company({.kind = MethodKind::batch}, 4, 8, apart(4));
  company.keeps_returned = true;
  company.raise_all();
  company.forget(1);
  company.on(ProcessDown{1, {Errc::job_failed, "process", "ended", {}}});
  company.on(DrainProcess{2});
  company.on(company.returned.front());
  while (company.run_one(2)) {
  }
  answer_fetches(company);
  ASSERT_EQ(company.released, std::vector<int>{2});
  // Lost before anybody heard of it.
  company.on(ProcessDown{9, {Errc::job_failed, "process", "ended", {}}});
  const std::vector<int> refused = {kHomeProcess, 1, 2, 3, 9, -1};
  const std::set<int> has_gone = {1, 2, 9};
  for (const int process : refused) {
    company.join(process, alike(1, 2));
  }
  ASSERT_EQ(company.refused.size(), refused.size());
  for (std::size_t i = 0; i < refused.size(); ++i) {
    EXPECT_EQ(company.refused[i].process, refused[i]);
    EXPECT_EQ(company.refused[i].cause.message,
              "process " + std::to_string(refused[i]) + " cannot join: " +
                  (has_gone.contains(refused[i])
                       ? "it left the job, or was lost, before it had joined"
                       : "another process has its place in the job"));
    EXPECT_FALSE(company.refused[i].cause.hint.empty());
  }
  EXPECT_TRUE(company.admitted.empty());
  company.run_to_end();
  EXPECT_EQ(num_done(company), 8U);
}

TEST(Joiners, AreRefusedWithWorkersThatCannotBe) {
  Company company({.kind = MethodKind::batch}, 1, 2, apart(1));
  company.join(1, {});
  company.join(1, {{.execution_class = 2}});
  company.join(1, {{.execution_class = -1}});
  company.join(1, {{.execution_class = 2}, {.execution_class = 1}});
  company.join(1, {{.max_rows = -1}});
  EXPECT_EQ(company.refused.size(), 5U);
  EXPECT_TRUE(company.admitted.empty());
  // Nothing was kept of them.
  company.join(1, {{.execution_class = 1}, {.execution_class = 2}});
  ASSERT_EQ(company.admitted.size(), 1U);
  EXPECT_EQ(company.admitted[0].first_worker, 1);
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
}

TEST(Joiners, OfANewClassBeginSamplesOfTheirOwn) {
  Company company({.kind = MethodKind::batch}, 1, 12, apart(1));
  company.raise_all();
  company.join(1, {{.execution_class = 1}});
  company.raise(1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 12U);
  std::size_t of_new_class = 0;
  for (const SampleReport& report : company.reports) {
    of_new_class += report.execution_class == 1 ? 1 : 0;
  }
  EXPECT_GE(of_new_class, 1U);
  for (const auto& [run, workers] : company.workers_of_run) {
    EXPECT_EQ(workers.size(), 1U) << "a run in two classes";
  }
}

TEST(Joiners, BringAClassBackThatHadLostItsLastWorker) {
  CoordinatorOptions options = apart(2);
  options.workers[1].execution_class = 1;
  Company company({.kind = MethodKind::batch}, 2, 12, options);
  company.raise_all();
  company.forget(1);
  company.on(ProcessDown{1, {Errc::job_failed, "process", "ended", {}}});
  company.join(2, {{.execution_class = 1}});
  company.raise(2);
  EXPECT_FALSE(samples_of(company, 2).empty());
  company.run_to_end();
  EXPECT_EQ(num_done(company), 12U);
}

TEST(Joiners, OfAPipelineFormAWholeGroup) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 12,
                  apart(2));
  company.raise_all();
  company.join(2, alike(1, 2));
  company.raise(2);
  company.run_one(0);
  EXPECT_TRUE(granted_to(company, 2).empty()) << "it is half of a group";
  company.join(3, alike(1, 2));
  EXPECT_TRUE(granted_to(company, 2).empty()) << "the other half is not up";
  company.raise(3);
  EXPECT_FALSE(granted_to(company, 2).empty());
  EXPECT_FALSE(granted_to(company, 3).empty());
  company.run_to_end();
  EXPECT_EQ(num_done(company), 12U);
}

TEST(Joiners, StandInForAWorkerThatIsLost) {
  for (const bool comes_before : {true, false}) {
    Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 12,
                    apart(2));
    company.raise_all();
    const auto join = [&company] {
      company.join(2, alike(1, 2));
      company.raise(2);
    };
    if (comes_before) {
      join();
    }
    company.forget(1);
    company.on(ProcessDown{1, {Errc::job_failed, "process", "ended", {}}});
    if (!comes_before) {
      join();
    }
    company.run_to_end();
    EXPECT_EQ(num_done(company), 12U);
    // Every sample that began since has a segment there.
    EXPECT_GE(samples_of(company, 2).size(), 8U);
  }
}

TEST(Joiners, GoOnWhereTheLastOfTheOthersLeaves) {
  CoordinatorOptions options = apart(1);
  options.workers[0].process = 1;
  Company company({.kind = MethodKind::batch}, 1, 4, options);
  company.keeps_returned = true;
  company.raise_all();
  company.run_one(0);
  company.join(2, alike(1, 2));
  company.on(DrainProcess{1});
  company.on(company.returned.front());
  while (company.run_one(0)) {
  }
  answer_fetches(company);
  EXPECT_EQ(company.released, std::vector<int>{1});
  EXPECT_EQ(company.times_ended, 0) << "a worker is still to come up";
  company.raise(1);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
  EXPECT_EQ(company.end.recoveries, 0);
  for (const auto& [run, workers] : company.workers_of_run) {
    EXPECT_EQ(run.second, 0U) << "no sample went back";
  }
}

TEST(Joiners, CanLeaveAgainOrBeLost) {
  for (const bool is_lost : {true, false}) {
    Company company({.kind = MethodKind::batch}, 1, 12, apart(1));
    company.raise_all();
    company.join(1, alike(2, 2));
    company.raise(1);  // the other one never comes up
    ASSERT_FALSE(samples_of(company, 1).empty());
    if (is_lost) {
      company.forget(1);
      company.on(ProcessDown{1, {Errc::job_failed, "process", "ended", {}}});
    } else {
      company.keeps_returned = true;
      company.on(DrainProcess{1});
      company.on(company.returned.front());
      while (company.run_one(1)) {
      }
      answer_fetches(company);
      EXPECT_EQ(company.released, std::vector<int>{1});
    }
    company.run_to_end();
    EXPECT_EQ(num_done(company), 12U);
    EXPECT_EQ(company.end.lost.size(), is_lost ? 1U : 0U);
  }
}

}  // namespace
}  // namespace troupe::actors
