// Cuts: when a sample is cut, what stays until the cut is taken, and what goes
// on from it.

#include <gtest/gtest.h>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using std::chrono::milliseconds;

/// The worker, and with it all values, in a process of their own.
CoordinatorOptions far_away(int workers = 1) {
  CoordinatorOptions options;
  options.cuts = {.interval = milliseconds(10), .calls = 1};
  for (int w = 0; w < workers; ++w) {
    options.workers.push_back({.process = w + 1});
  }
  return options;
}

/// Lets the first worker run passes until there is a cut to take.
void run_to_cut(Company& company) {
  for (int i = 0; i < 100 && company.cuts.empty(); ++i) {
    company.now += milliseconds(6);
    company.run_one(0);
  }
  ASSERT_FALSE(company.cuts.empty());
}

TEST(Cuts, AreMadeAfterSoManyCallsAndSoMuchTime) {
  CoordinatorOptions options = far_away();
  options.cuts = {.interval = milliseconds(10), .calls = 2};
  Company company({.kind = MethodKind::batch}, 1, 1, options);
  company.raise_all();
  company.now += milliseconds(100);
  company.run_one(0);
  EXPECT_TRUE(company.cuts.empty()) << "one call";
  company.run_one(0);
  ASSERT_EQ(company.cuts.size(), 1U);
  company.run_one(0);
  company.run_one(0);
  EXPECT_EQ(company.cuts.size(), 1U) << "it is under way";
  (void)company.take_cut();
  company.now += milliseconds(9);
  company.run_one(0);
  EXPECT_TRUE(company.cuts.empty()) << "too soon";
}

TEST(Cuts, AreNotMadeOfWhatCannotBeLost) {
  CoordinatorOptions options = far_away();
  options.workers[0].process = kHomeProcess;
  Company company({.kind = MethodKind::batch}, 1, 2, options);
  company.raise_all();
  for (int i = 0; i < 100 && company.times_ended == 0; ++i) {
    company.now += milliseconds(20);
    company.run_one(0);
  }
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_TRUE(company.cuts.empty());
}

TEST(Cuts, KeepTheirSlotsUntilTheyAreTaken) {
  Company company({.kind = MethodKind::batch}, 1, 1, far_away());
  company.raise_all();
  run_to_cut(company);
  ASSERT_FALSE(company.cuts.front().cut.slots.empty());
  const samplers::Slot cut = company.cuts.front().cut.slots.front();
  const auto is_freed = [&] {
    company.on(TimeTick{});
    const auto names_it = [cut](const FreedSlots& freed) {
      return std::ranges::find(freed.slots, cut) != freed.slots.end();
    };
    const auto in_message = [&](const FreeValues& free) {
      return std::ranges::any_of(free.frees, names_it);
    };
    const auto in_grant = [&](const Grant& grant) {
      return std::ranges::any_of(grant.frees, names_it);
    };
    return std::ranges::any_of(company.freed, in_message) ||
           std::ranges::any_of(company.grants, in_grant);
  };
  company.run_one(0);
  company.run_one(0);
  EXPECT_FALSE(is_freed());
  (void)company.take_cut();
  EXPECT_TRUE(is_freed());
}

TEST(Cuts, AreWhatALostSampleGoesOnFrom) {
  Company company({.kind = MethodKind::batch}, 2, 1, far_away(2));
  company.raise_all();
  run_to_cut(company);
  const TakeCut taken = company.take_cut();
  company.run_one(0);
  company.forget(0);
  company.on(ProcessDown{1, {Errc::job_failed, "process", "ended", {}}});
  ASSERT_EQ(company.restores.size(), 1U);
  EXPECT_EQ(company.restores[0].number, taken.number);
  EXPECT_EQ(company.restores[0].run, 1U);
  // The first task of the new run reads what the cut holds.
  const SampleTask& next = company.grants.back().tasks.front();
  EXPECT_EQ(next.run, 1U);
  for (const samplers::Slot slot : next.task.inputs) {
    EXPECT_NE(std::ranges::find(taken.cut.slots, slot), taken.cut.slots.end());
  }
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.reports[0].progress.nfe, 5);
}

TEST(Cuts, ThatAreNotWholeLeaveTheOneBefore) {
  Company company({.kind = MethodKind::batch}, 2, 1, far_away(2));
  company.raise_all();
  run_to_cut(company);
  const TakeCut first = company.take_cut();
  run_to_cut(company);
  EXPECT_EQ(company.cuts.front().last, first.number);
  (void)company.take_cut(false);
  // Nobody holds what it needs any more: back to the first.
  ASSERT_EQ(company.restores.size(), 1U);
  EXPECT_EQ(company.restores[0].number, first.number);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

TEST(Cuts, OfAnEarlierRunCountForNothing) {
  Company company({.kind = MethodKind::batch}, 2, 1, far_away(2));
  company.raise_all();
  run_to_cut(company);
  company.forget(0);
  company.on(ProcessDown{1, {Errc::job_failed, "process", "ended", {}}});
  EXPECT_TRUE(company.restores.empty()) << "there was none yet";
  (void)company.take_cut();
  company.forget(1);
  company.run_to_end();
  EXPECT_TRUE(company.restores.empty());
}

TEST(Cuts, OfAnotherCoordinatorAreWhereSamplesBegin) {
  Company before({.kind = MethodKind::batch}, 1, 1, far_away());
  before.raise_all();
  run_to_cut(before);
  const Cut cut = before.cuts.front().cut;
  CoordinatorOptions options = far_away();
  options.workers[0].process = kHomeProcess;
  options.first_run = 100;
  options.begun.emplace(0, cut);
  Company company({.kind = MethodKind::batch}, 1, 1, options);
  company.slots_of_cut_0(cut.slots);
  company.raise_all();
  ASSERT_EQ(company.restores.size(), 1U);
  EXPECT_EQ(company.restores[0].number, 0U);
  EXPECT_EQ(company.restores[0].run, 100U);
  EXPECT_GT(company.grants.front().tasks.front().task.from, 0);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.reports[0].progress.nfe, 5);
}

}  // namespace
}  // namespace troupe::actors
