// Workers whose speed is known from earlier jobs.

#include <gtest/gtest.h>

#include <map>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using std::chrono::milliseconds;

/// Of two workers the first is four times as fast, or nothing is known.
CoordinatorOptions unequal(bool is_known, int max_rows = 8) {
  CoordinatorOptions options;
  options.workers = {{.max_rows = max_rows, .row_seconds = is_known ? 0.1 : 0},
                     {.max_rows = max_rows, .row_seconds = is_known ? 0.4 : 0}};
  return options;
}

/// Rows that were granted to a worker.
std::size_t num_rows(const Company& company, int worker) {
  std::size_t rows = 0;
  for (const Grant& grant : company.grants) {
    for (const SampleTask& work : grant.tasks) {
      rows += grant.worker == worker && work.task.op == samplers::Op::evaluate
                  ? 1
                  : 0;
    }
  }
  return rows;
}

/// The first rows of a window of five, by worker.
std::map<int, std::size_t> first_rows(bool is_known) {
  Company company({.kind = MethodKind::picard, .window_size = 5}, 2, 1,
                  unequal(is_known));
  company.raise_all();
  return {{0, num_rows(company, 0)}, {1, num_rows(company, 1)}};
}

TEST(EarlierSpeeds, ShareTheFirstRowsOfAWindow) {
  EXPECT_EQ(first_rows(true), (std::map<int, std::size_t>{{0, 4}, {1, 1}}));
  EXPECT_EQ(first_rows(false), (std::map<int, std::size_t>{{0, 2}, {1, 3}}));
}

TEST(EarlierSpeeds, LeaveRowsOfTheSlowBranchToTheOtherWorker) {
  for (const bool is_known : {true, false}) {
    Company company({.kind = MethodKind::cfg}, 2, 2, unequal(is_known));
    company.raise_all();
    EXPECT_EQ(num_rows(company, 1) < num_rows(company, 0), is_known);
  }
}

TEST(EarlierSpeeds, GiveTheOnlySampleToTheFastestWorker) {
  for (const bool is_known : {true, false}) {
    CoordinatorOptions options = unequal(is_known);
    std::ranges::reverse(options.workers);
    Company company({.kind = MethodKind::batch}, 2, 1, options);
    company.raise_all();
    EXPECT_EQ(num_rows(company, 1) > 0, is_known);
    EXPECT_EQ(num_rows(company, 0) > 0, !is_known);
  }
}

TEST(EarlierSpeeds, OfANewcomerCountToo) {
  const samplers::MethodOptions picard{.kind = MethodKind::picard,
                                       .window_size = 5};
  CoordinatorOptions options;
  options.workers = {{.max_rows = 8, .row_seconds = 0.4}};
  Company company(picard, 1, 1, options);
  company.join(1, {{.max_rows = 8, .row_seconds = 0.1}});
  company.raise_all();
  EXPECT_EQ(num_rows(company, 0), 1U);
  EXPECT_EQ(num_rows(company, 1), 4U);
}

TEST(EarlierSpeeds, GiveWayToWhatIsMeasured) {
  Company company({.kind = MethodKind::batch}, 2, 40, unequal(true, 1));
  company.grant_duration = milliseconds(200);
  company.raise_all();
  company.run_to_end();
  ASSERT_EQ(company.end.speeds.size(), 2U);
  std::int64_t rows = 0;
  for (const WorkerSpeed& one : company.end.speeds) {
    EXPECT_NEAR(one.row_seconds, 0.2, 0.02);
    rows += one.num_rows;
  }
  EXPECT_EQ(rows, company.end.progress.nfe);
}

TEST(EarlierSpeeds, AreMeasuredOfWholeNetworksOnly) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 4);
  company.raise_all();
  company.run_to_end();
  EXPECT_TRUE(company.end.speeds.empty());
}

}  // namespace
}  // namespace troupe::actors
