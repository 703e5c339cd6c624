// No sample begins without room for what it will leave to the writer.

#include <gtest/gtest.h>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

/// So many outcomes are the whole credit.
constexpr std::uint64_t kFit = 8;

Company with_credit(std::uint64_t samples,
                    std::uint64_t outcome_bytes = kWriterCredit / kFit) {
  return {{.kind = MethodKind::batch},
          2,
          samples,
          {.workers = alike(2, 1), .outcome_bytes = outcome_bytes}};
}

/// Until all that has begun has ended.
void run_dry(Company& company) {
  while (company.run_one(0) || company.run_one(1)) {
  }
}

TEST(WriterCredit, LetsSamplesBeginWhileTheirOutcomesFit) {
  Company company = with_credit(100);
  company.raise_all();
  run_dry(company);
  EXPECT_EQ(num_done(company), kFit);
  EXPECT_EQ(company.times_ended, 0);
  EXPECT_EQ(company.step_workers.size(), kFit) << "one began without credit";
}

TEST(WriterCredit, GoesOnWithWhatIsReleased) {
  Company company = with_credit(100);
  company.raise_all();
  run_dry(company);
  for (std::uint64_t i = 0; i < 92; ++i) {
    company.on(OutcomeReleased{company.reports[i].sample_index});
    run_dry(company);
    ASSERT_EQ(num_done(company), kFit + i + 1);
  }
  EXPECT_EQ(company.times_ended, 1) << "the end waits for no writer";
}

TEST(WriterCredit, CountsAReleaseOnce) {
  Company company = with_credit(100);
  company.raise_all();
  run_dry(company);
  for (int i = 0; i < 5; ++i) {
    company.on(OutcomeReleased{company.reports[0].sample_index});
    run_dry(company);
  }
  EXPECT_EQ(num_done(company), kFit + 1);
}

TEST(WriterCredit, LetsOneBeginThatAloneIsTooLarge) {
  Company company = with_credit(10, 3 * kWriterCredit);
  company.raise_all();
  while (company.times_ended == 0) {
    run_dry(company);
    ASSERT_FALSE(company.reports.empty());
    const std::size_t ended = company.reports.size();
    for (const SampleReport& report : company.reports) {
      company.on(OutcomeReleased{report.sample_index});
    }
    run_dry(company);
    ASSERT_TRUE(company.times_ended > 0 || company.reports.size() > ended);
  }
  EXPECT_EQ(num_done(company), 10U);
}

TEST(WriterCredit, CountsSmallOutcomesAsLargerOnes) {
  constexpr std::uint64_t kMost = kWriterCredit / kLeastOutcomeBytes;
  Company company = with_credit(2 * kMost, 1);
  company.raise_all();
  run_dry(company);
  EXPECT_EQ(num_done(company), kMost);
}

TEST(WriterCredit, DoesNotCountWhatLeftNothing) {
  Company company = with_credit(100);
  company.raise_all();
  // The first is done, so that failures do not end the job.
  while (num_done(company) == 0) {
    company.run_one(0);
  }
  for (int i = 0; i < 10000 && company.reports.size() < 30; ++i) {
    if (!company.mailboxes[0].empty()) {
      company.on(company.fail(company.take(0), Errc::non_finite));
    }
  }
  EXPECT_GE(company.reports.size(), 30U);
}

TEST(WriterCredit, IsNotAskedForWhereOutcomesHaveNoSize) {
  Company company = with_credit(100, 0);
  company.raise_all();
  run_dry(company);
  EXPECT_EQ(num_done(company), 100U);
}

/// The same grants in the same order, with and without credit.
TEST(WriterCredit, ChangesNothingWhereTheWriterKeepsUp) {
  const auto order = [](std::uint64_t outcome_bytes) {
    Company company = with_credit(40, outcome_bytes);
    company.raise_all();
    std::vector<std::uint64_t> ended;
    for (int i = 0; company.times_ended == 0 && i < 10000; ++i) {
      company.run_one(i % 3 == 0 ? 1 : 0);
      for (; ended.size() < company.reports.size();) {
        ended.push_back(company.reports[ended.size()].sample_index);
        company.on(OutcomeReleased{ended.back()});
      }
    }
    return ended;
  };
  EXPECT_EQ(order(0).size(), 40U);
  EXPECT_EQ(order(kWriterCredit / kFit), order(0));
  EXPECT_EQ(order(kWriterCredit), order(0));
}

}  // namespace
}  // namespace troupe::actors
