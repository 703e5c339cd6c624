// Jobs that have no workers: they wait for processes.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

/// Nobody computes until a process joins.
CoordinatorOptions waiting() {
  CoordinatorOptions options;
  options.waits_for_processes = true;
  return options;
}

TEST(AJobWithoutWorkers, IsAnErrorUnlessItWaitsForProcesses) {
  EXPECT_THROW(Company({.kind = MethodKind::batch}, 0, 4), Error);
}

TEST(AJobWithoutWorkers, BeginsWithTheFirstProcess) {
  Company company({.kind = MethodKind::batch}, 0, 4, waiting());
  company.on(TimeTick{});
  EXPECT_TRUE(company.grants.empty());
  EXPECT_EQ(company.times_ended, 0);
  company.join(1, alike(2, 2));
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
}

TEST(AJobWithoutWorkers, KnowsTheClassesThatHaveNone) {
  CoordinatorOptions options = waiting();
  options.num_classes = 2;
  Company company({.kind = MethodKind::batch}, 0, 4, options);
  std::vector<WorkerTraits> second = alike(1, 2);
  second[0].execution_class = 1;
  company.join(1, second);
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(num_done(company), 4U);
  for (const SampleReport& report : company.reports) {
    EXPECT_EQ(report.execution_class, 1);
  }
}

TEST(AJobWithoutWorkers, WaitsForTheNextProcessWhenTheLastIsGone) {
  for (const MethodKind kind :
       {MethodKind::batch, MethodKind::picard, MethodKind::pipeline}) {
    for (const bool leaves : {false, true}) {
      Company company({.kind = kind, .window_size = 3, .num_segments = 2}, 0, 4,
                      waiting());
      company.join(1, alike(2, 2));
      company.raise_all();
      for (int i = 0; i < 5; ++i) {
        (void)company.run_one(i % 2);
      }
      EXPECT_FALSE(company.progress.waits_for_workers);
      if (leaves) {
        company.on(DrainProcess{1});
        while (!company.returned.empty()) {
          const GrantResult back = company.returned.front();
          company.returned.pop_front();
          company.on(back);
        }
        while (company.run_one(0) || company.run_one(1)) {
        }
        answer_fetches(company);
        EXPECT_EQ(company.released, std::vector<int>{1});
      } else {
        company.forget(0);
        company.forget(1);
        company.on(ProcessDown{1, {Errc::unreachable, "process", "lost", {}}});
      }
      EXPECT_TRUE(company.progress.waits_for_workers) << "reported at once";
      company.on(TimeTick{});
      EXPECT_EQ(company.times_ended, 0);
      company.join(2, alike(2, 2));
      EXPECT_FALSE(company.progress.waits_for_workers);
      company.raise(2);
      company.raise(3);
      company.run_to_end();
      EXPECT_EQ(num_done(company), 4U);
      EXPECT_FALSE(company.end.failure);
      const auto& first = company.workers_of_run;
      const bool went_back = std::ranges::any_of(
          first, [](const auto& run) { return run.first.second > 0; });
      EXPECT_EQ(went_back, !leaves) << "a process that leaves hands over";
    }
  }
}

}  // namespace
}  // namespace troupe::actors
