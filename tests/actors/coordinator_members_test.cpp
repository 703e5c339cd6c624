// Processes that leave of their own accord.

#include <gtest/gtest.h>

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

/// Brings home what is asked for.
void answer_fetches(Company& company) {
  while (!company.fetches.empty()) {
    const FetchValues fetch = company.fetches.front();
    company.fetches.pop_front();
    company.on(
        ValuesFetched{fetch.sample_index, fetch.run, {}, fetch.is_rescue});
  }
}

TEST(Members, GiveBackWhatTheyHaveNotBegunBeforeOthersGetIt) {
  Company company({.kind = MethodKind::batch}, 2, 8, apart(2));
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
  EXPECT_EQ(company.end.lost.size(), 1U);
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

}  // namespace
}  // namespace troupe::actors
