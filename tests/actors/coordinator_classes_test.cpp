// Samples whose execution class loses its last worker.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using config::ClassChange;
using samplers::MethodKind;

/// Class 0 at home, class 1 in a process of its own. Twelve samples have begun,
/// some in each.
class TwoClasses : public testing::Test {
 protected:
  static Company begun(ClassChange change) {
    CoordinatorOptions options;
    options.workers = {{}, {.execution_class = 1, .process = 1}};
    options.on_class_change = change;
    Company company({.kind = MethodKind::batch}, 2, 12, options);
    company.raise_all();
    for (int i = 0; i < 4; ++i) {
      company.run_one(i % 2);
    }
    answer_fetches(company);
    return company;
  }
  static void lose_class_1(Company& company) {
    company.forget(1);
    company.on(ProcessDown{1, {Errc::unreachable, "process", "lost", {}}});
  }
  /// That were granted to the worker and have not ended.
  static std::set<std::uint64_t> open_at(const Company& company, int worker) {
    std::set<std::uint64_t> samples;
    for (const auto& [run, workers] : company.workers_of_run) {
      if (workers.contains(worker)) {
        samples.insert(run.first);
      }
    }
    for (const SampleReport& report : company.reports) {
      samples.erase(report.sample_index);
    }
    return samples;
  }
  static void expect_one_class_per_run(const Company& company) {
    for (const auto& [run, workers] : company.workers_of_run) {
      EXPECT_FALSE(workers.contains(0) && workers.contains(1))
          << "sample " << run.first << ", run " << run.second;
    }
  }
};

TEST_F(TwoClasses, BeginSamplesAnewInTheOther) {
  Company company = begun(ClassChange::begin_anew);
  const std::set<std::uint64_t> hit = open_at(company, 1);
  ASSERT_FALSE(hit.empty());
  lose_class_1(company);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 12U);
  expect_one_class_per_run(company);
  for (const SampleReport& report : company.reports) {
    EXPECT_TRUE(!hit.contains(report.sample_index) ||
                report.execution_class == 0);
  }
}

TEST_F(TwoClasses, WaitForAWorkerOfTheirOwn) {
  Company company = begun(ClassChange::wait);
  const std::set<std::uint64_t> hit = open_at(company, 1);
  ASSERT_FALSE(hit.empty());
  lose_class_1(company);
  while (company.run_one(0)) {
  }
  EXPECT_EQ(num_done(company), 12 - hit.size());
  EXPECT_EQ(company.times_ended, 0);
  // A newcomer of the first class is not what they wait for.
  company.join(2, {{}});
  company.raise(2);
  while (company.run_one(0) || company.run_one(2)) {
  }
  EXPECT_EQ(num_done(company), 12 - hit.size());
  company.join(3, {{.execution_class = 1}});
  company.raise(3);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 12U);
  for (const SampleReport& report : company.reports) {
    if (hit.contains(report.sample_index)) {
      EXPECT_EQ(report.execution_class, 1) << report.sample_index;
    }
  }
}

TEST_F(TwoClasses, FailSamplesThatMayNotChange) {
  Company company = begun(ClassChange::refuse);
  const std::set<std::uint64_t> hit = open_at(company, 1);
  ASSERT_FALSE(hit.empty());
  lose_class_1(company);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 12 - hit.size());
  EXPECT_FALSE(company.end.failure) << "the job goes on";
  for (const SampleReport& report : company.reports) {
    const bool is_hit = hit.contains(report.sample_index);
    ASSERT_EQ(report.failure.has_value(), is_hit) << report.sample_index;
    if (is_hit) {
      EXPECT_EQ(report.failure->code, Errc::another_class);
    }
  }
}

TEST_F(TwoClasses, AreNotMixedNearTheEndUnlessTheyMay) {
  for (const ClassChange change :
       {ClassChange::begin_anew, ClassChange::wait, ClassChange::refuse}) {
    // The second class is far slower: the first class takes its last samples
    // over.
    Company company = begun(change);
    company.grant_duration = std::chrono::milliseconds(1);
    while (company.times_ended == 0) {
      company.now += std::chrono::milliseconds(10);
      if (!company.run_one(0)) {
        company.now += std::chrono::seconds(1);
        company.run_one(1);
      }
      answer_fetches(company);
    }
    EXPECT_EQ(num_done(company), 12U);
    const bool moved = std::ranges::any_of(
        company.workers_of_run,
        [](const auto& run) { return run.first.second > 0; });
    EXPECT_EQ(moved, change == ClassChange::begin_anew);
  }
}

TEST(ClassesWithoutWorkers, AreNoGroups) {
  CoordinatorOptions options;
  options.workers = {{}, {.process = 1}};
  options.num_classes = 3;
  Company company({.kind = MethodKind::batch}, 2, 5, options);
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(num_done(company), 5U);
}

TEST(ClassesWithoutWorkers, CountWhenTheirProcessWasRefused) {
  CoordinatorOptions options;
  options.workers = {{}};
  options.value_sizes = {.state = 1000, .output = 1000};
  Company company({.kind = MethodKind::batch}, 1, 3, options);
  company.on(ProcessJoined{1, {{.execution_class = 1}}, 1});
  ASSERT_EQ(company.refused.size(), 1U);
  EXPECT_NE(company.refused[0].cause.message.find("the values of one sample"),
            std::string::npos);
  company.join(2, {{.execution_class = 2}});
  EXPECT_EQ(company.admitted.size(), 1U);
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(num_done(company), 3U);
}

}  // namespace
}  // namespace troupe::actors
