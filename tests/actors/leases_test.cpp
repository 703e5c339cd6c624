#include <gtest/gtest.h>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Ticks four times a second, as the shells do.
void pass_time(Company& company, Duration time) {
  const TimePoint end = company.now + time;
  while (company.now < end) {
    company.now += milliseconds(250);
    company.on(TimeTick{});
  }
}

TEST(Leases, AreTenTimesTheSlowestPass) {
  Company company({.kind = MethodKind::batch}, 1, 4,
                  {.lease = {.least = seconds(1)}});
  company.raise_all();
  company.grant_duration = milliseconds(500);
  company.run_one(0);
  pass_time(company, milliseconds(4750));
  EXPECT_TRUE(company.fenced.empty());
  pass_time(company, milliseconds(500));
  EXPECT_EQ(company.fenced, std::vector<int>{0});
}

TEST(Leases, AreLongForWhatNobodyHasDoneYet) {
  Company company({.kind = MethodKind::batch}, 1, 1,
                  {.lease = {.least = seconds(1), .unmeasured = seconds(60)}});
  company.raise_all();
  pass_time(company, seconds(59));
  EXPECT_TRUE(company.fenced.empty());
  pass_time(company, seconds(2));
  EXPECT_EQ(company.fenced, std::vector<int>{0});
}

TEST(Leases, OfADecodeAreLongUntilOneWasDone) {
  Company company({.kind = MethodKind::batch}, 1, 1,
                  {.lease = {.least = seconds(1), .unmeasured = seconds(60)}});
  company.raise_all();
  while (company.mailboxes[0].at(0).tasks[0].task.op != samplers::Op::decode) {
    company.run_one(0);
  }
  pass_time(company, seconds(30));
  EXPECT_TRUE(company.fenced.empty());
}

TEST(Leases, AreRenewedAfterAGapInTime) {
  Company company({.kind = MethodKind::batch}, 2, 4,
                  {.lease = {.least = seconds(10)}});
  company.raise_all();
  company.on(TimeTick{});
  company.now += seconds(3600);  // the machine slept
  company.on(TimeTick{});
  pass_time(company, seconds(9));
  EXPECT_TRUE(company.fenced.empty());
  pass_time(company, seconds(2));
  EXPECT_EQ(company.fenced, (std::vector<int>{0, 1}));
}

TEST(Losses, OfOneTaskFailItsSampleAlone) {
  Company company({.kind = MethodKind::batch}, 1, 3);
  company.raise_all();
  int deaths = 0;
  while (company.times_ended == 0) {
    const Grant pass = company.mailboxes[0].at(0);
    if (pass.tasks[0].sample_index == 1 && pass.tasks[0].task.from == 2) {
      ++deaths;
      company.kill(0);
      company.raise(0);
    } else {
      company.run_one(0);
    }
  }
  EXPECT_EQ(deaths, 3);
  EXPECT_FALSE(company.end.failure);
  ASSERT_EQ(company.reports.size(), 3U);
  for (const SampleReport& report : company.reports) {
    const bool is_poison = report.sample_index == 1;
    EXPECT_EQ(report.status,
              is_poison ? SampleStatus::failed : SampleStatus::done);
    ASSERT_EQ(report.failure.has_value(), is_poison);
    if (is_poison) {
      EXPECT_NE(report.failure->message.find("3 losses"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace troupe::actors
