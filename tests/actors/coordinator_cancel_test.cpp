// Samples that somebody does not want any more.

#include <gtest/gtest.h>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

std::size_t count(const Company& company, SampleStatus status) {
  return static_cast<std::size_t>(
      std::ranges::count(company.reports, status, &SampleReport::status));
}

SampleStatus status_of(const Company& company, std::uint64_t index) {
  return std::ranges::find(company.reports, index, &SampleReport::sample_index)
      ->status;
}

bool is_dropped(const Company& company, std::uint64_t index) {
  return std::ranges::any_of(company.dropped, [index](const DropRuns& drop) {
    return drop.sample_index == index && !drop.last_run;
  });
}

TEST(Cancel, OfASampleThatWaitsKeepsItFromBeginning) {
  Company company({.kind = MethodKind::batch}, 1, 8);
  company.raise_all();
  ASSERT_FALSE(company.workers_of_run.contains({7, 0}));
  company.on(CancelSample{7});
  ASSERT_EQ(company.reports.size(), 1U);
  EXPECT_EQ(status_of(company, 7), SampleStatus::cancelled);
  EXPECT_FALSE(company.reports[0].failure);
  EXPECT_FALSE(is_dropped(company, 7)) << "no process knows it";
  company.run_to_end();
  EXPECT_FALSE(company.workers_of_run.contains({7, 0}));
  EXPECT_EQ(num_done(company), 7U);
  EXPECT_EQ(company.times_ended, 1);
  EXPECT_FALSE(company.end.failure);
  EXPECT_TRUE(company.end.unfinished.empty());
}

TEST(Cancel, BeforeAnyWorkerIsThereHoldsToo) {
  Company company({.kind = MethodKind::batch}, 1, 2);
  company.on(CancelSample{0});
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(status_of(company, 0), SampleStatus::cancelled);
  EXPECT_EQ(status_of(company, 1), SampleStatus::done);
}

TEST(Cancel, OfASampleInFlightEndsItAtOnce) {
  for (const MethodKind kind :
       {MethodKind::sequential, MethodKind::batch, MethodKind::cfg,
        MethodKind::picard, MethodKind::pipeline, MethodKind::stale}) {
    SCOPED_TRACE(std::string(kind->name));
    Company company({.kind = kind, .window_size = 3, .num_segments = 2}, 2, 4,
                    {.trajectory = true});
    company.raise_all();
    company.run_one(0);
    const std::uint64_t index = company.workers_of_run.begin()->first.first;
    company.on(CancelSample{index});
    ASSERT_EQ(company.reports.size(), 1U);
    EXPECT_EQ(status_of(company, index), SampleStatus::cancelled);
    EXPECT_TRUE(is_dropped(company, index));
    const std::size_t sent = company.grants.size();
    company.run_to_end();
    for (const ShowIntermediate& show : company.shown) {
      EXPECT_NE(show.sample_index, index);
    }
    for (std::size_t i = sent; i < company.grants.size(); ++i) {
      for (const SampleTask& work : company.grants[i].tasks) {
        EXPECT_NE(work.sample_index, index);
      }
    }
    EXPECT_EQ(company.reports.size(), 4U);
    EXPECT_EQ(num_done(company), 3U);
    EXPECT_FALSE(company.end.failure);
    EXPECT_EQ(company.end.recoveries, 0);
  }
}

TEST(Cancel, AgainOrOfWhatHasEndedOrIsNotThereIsHarmless) {
  Company company({.kind = MethodKind::batch}, 1, 3);
  company.raise_all();
  for (int times = 0; times < 2; ++times) {
    company.on(CancelSample{0});
    company.on(CancelSample{99});
  }
  EXPECT_EQ(company.reports.size(), 1U);
  while (num_done(company) == 0) {
    ASSERT_TRUE(company.run_one(0));
  }
  const std::uint64_t done = company.reports.back().sample_index;
  const std::size_t ended = company.reports.size();
  company.on(CancelSample{done});
  EXPECT_EQ(company.reports.size(), ended);
  EXPECT_EQ(status_of(company, done), SampleStatus::done);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_EQ(company.end.progress.samples_cancelled, 1U);
}

TEST(Cancel, ComesTooLateForAResultOnItsWayHome) {
  CoordinatorOptions options;
  options.workers = {{.process = 1}};
  Company company({.kind = MethodKind::batch}, 1, 1, options);
  company.raise_all();
  while (company.run_one(0)) {
  }
  ASSERT_FALSE(company.fetches.empty());
  company.on(CancelSample{0});
  EXPECT_TRUE(company.reports.empty());
  company.run_to_end();
  EXPECT_EQ(status_of(company, 0), SampleStatus::done);
}

TEST(Cancel, ComesInTimeForASampleThatIsStillToBeDecoded) {
  Company company({.kind = MethodKind::batch}, 1, 1);
  company.raise_all();
  const auto decodes = [&company] {
    return !company.grants.empty() &&
           company.grants.back().tasks[0].task.op == samplers::Op::decode;
  };
  while (!decodes()) {
    ASSERT_TRUE(company.run_one(0));
  }
  company.on(CancelSample{0});
  EXPECT_EQ(status_of(company, 0), SampleStatus::cancelled);
  EXPECT_EQ(company.times_ended, 1);
}

TEST(Cancel, OfAllThatIsLeftEndsTheJob) {
  Company company({.kind = MethodKind::batch}, 1, 6);
  company.raise_all();
  for (std::uint64_t index = 0; index < 6; ++index) {
    EXPECT_EQ(company.times_ended, 0);
    company.on(CancelSample{index});
  }
  EXPECT_EQ(company.times_ended, 1);
  EXPECT_FALSE(company.end.failure);
  EXPECT_FALSE(company.end.stopped);
  EXPECT_EQ(count(company, SampleStatus::cancelled), 6U);
}

// The first sample fails, the second is cancelled: nothing was done, whichever
// comes first.
TEST(Cancel, LeavesAJobWithoutASuccessFailed) {
  for (const bool cancel_first : {false, true}) {
    CoordinatorOptions options;
    options.workers = alike(1, 1);
    Company company({.kind = MethodKind::batch}, 1, 2, options);
    company.raise_all();
    if (cancel_first) {
      company.on(CancelSample{1});
    }
    company.on(company.fail(company.take(0), Errc::non_finite));
    if (!cancel_first) {
      EXPECT_EQ(company.times_ended, 0);
      company.on(CancelSample{1});
    }
    ASSERT_EQ(company.times_ended, 1);
    ASSERT_TRUE(company.end.failure);
    EXPECT_EQ(company.end.failure->code, Errc::non_finite);
  }
}

TEST(Cancel, LeavesProgressThatReachesItsEnd) {
  Company company({.kind = MethodKind::batch}, 1, 6);
  company.raise_all();
  for (int pass = 0; pass < 4; ++pass) {
    company.run_one(0);
  }
  company.on(CancelSample{0});  // in flight
  company.on(CancelSample{5});  // waits
  company.run_to_end();
  const JobProgress& end = company.end.progress;
  EXPECT_EQ(end.samples_total, 4U);
  EXPECT_EQ(end.samples_done, 4U);
  EXPECT_EQ(end.samples_cancelled, 2U);
  EXPECT_EQ(end.calls_done, end.calls_total);
  EXPECT_GT(end.calls_total, 4 * 5) << "calls that were done of sample 0";
}

// Neither a cancelled sample nor a second cancel uses up writer's credit.
TEST(Cancel, LeavesNoOutcomeBehind) {
  constexpr std::uint64_t kFit = 4;
  Company company(
      {.kind = MethodKind::batch}, 1, 40,
      {.workers = alike(1, 1), .outcome_bytes = kWriterCredit / kFit});
  company.raise_all();
  for (std::uint64_t index = 0; index < 30; ++index) {
    company.run_one(0);
    company.on(CancelSample{index});
    company.on(CancelSample{index});
  }
  while (company.run_one(0)) {
  }
  EXPECT_EQ(num_done(company), kFit);
  EXPECT_EQ(count(company, SampleStatus::cancelled), 30U);
}

}  // namespace
}  // namespace troupe::actors
