// A sample begins only where all that it may hold fits.

#include <gtest/gtest.h>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

/// Only states count, and each is a byte.
constexpr ValueSizes kStates{.state = 1};
/// Of a sample of five calls: one before each, and the last. Where values can
/// be lost a cut holds as many again, and two cuts in the coordinator's
/// process.
constexpr std::uint64_t kEach = 6;
constexpr std::uint64_t kEachWithCuts = 2 * kEach;
constexpr std::uint64_t kEachAtHome = 3 * kEach;

/// One worker in each process; `budgets`: bytes that each process keeps for
/// values.
Company in_processes(const std::vector<std::uint64_t>& budgets,
                     std::uint64_t samples,
                     MethodKind kind = MethodKind::batch) {
  CoordinatorOptions options{.value_sizes = kStates};
  for (std::size_t p = 0; p < budgets.size(); ++p) {
    options.workers.push_back({.max_rows = 1, .process = static_cast<int>(p)});
    options.value_budgets[static_cast<int>(p)] = budgets[p];
  }
  return {{.kind = kind, .window_size = 3},
          static_cast<int>(budgets.size()),
          samples,
          options};
}

/// Samples that somebody was given a task of, and that have not ended.
std::set<std::uint64_t> in_flight(const Company& company) {
  std::set<std::uint64_t> samples;
  for (const auto& [name, workers] : company.workers_of_run) {
    samples.insert(name.first);
  }
  for (const SampleReport& report : company.reports) {
    samples.erase(report.sample_index);
  }
  return samples;
}

std::set<int> workers_of(const Company& company) {
  std::set<int> all;
  for (const auto& [name, workers] : company.workers_of_run) {
    all.insert(workers.begin(), workers.end());
  }
  return all;
}

/// As run_to_end, and calls `check` after every answer.
template <typename Check>
void run_and(Company& company, const Check& check) {
  for (int i = 0; i < 10000 && company.times_ended == 0; ++i) {
    company.run_one(i % static_cast<int>(company.mailboxes.size()));
    if (!company.fetches.empty()) {
      const FetchValues fetch = company.fetches.front();
      company.fetches.pop_front();
      company.on(
          ValuesFetched{fetch.sample_index, fetch.run, fetch.number, {}});
    }
    check();
  }
}

TEST(ValueRoom, LetsAsManySamplesBeginAsFit) {
  Company company({.kind = MethodKind::batch}, 2, 10,
                  {.workers = alike(2, 2),
                   .value_sizes = kStates,
                   .value_budgets = {{kHomeProcess, 4 * kEach - 1}}});
  company.raise_all();
  EXPECT_EQ(in_flight(company).size(), 3U);
  std::size_t most = 0;
  run_and(company, [&] { most = std::max(most, in_flight(company).size()); });
  EXPECT_EQ(most, 3U);
  EXPECT_EQ(num_done(company), 10U) << "room was not given back";
}

TEST(ValueRoom, IsNotAskedForWhereSizesOrBudgetsAreNotKnown) {
  for (const ValueSizes& sizes : {ValueSizes{}, kStates}) {
    Company company(
        {.kind = MethodKind::batch}, 2, 10,
        {.workers = alike(2, 2),
         .value_sizes = sizes,
         .value_budgets = {{kHomeProcess, sizes.state == 0 ? 1U : 0U}}});
    company.raise_all();
    EXPECT_EQ(in_flight(company).size(), 4U);
  }
}

TEST(ValueRoom, EndsAJobOfWhichNoSampleFits) {
  Company company = in_processes({kEach - 1}, 3);
  company.raise_all();
  ASSERT_EQ(company.times_ended, 1);
  ASSERT_TRUE(company.end.failure.has_value());
  EXPECT_EQ(company.end.failure->code, Errc::out_of_memory);
  EXPECT_NE(
      company.end.failure->message.find("got 5 B for values, expected 6 B"),
      std::string::npos)
      << company.end.failure->message;
  EXPECT_TRUE(company.grants.empty());
}

TEST(ValueRoom, LeavesSamplesToProcessesThatHaveIt) {
  Company company = in_processes({0, kEachWithCuts - 1, kEachWithCuts}, 9);
  company.raise_all();
  run_and(company, [] {});
  EXPECT_EQ(num_done(company), 9U);
  EXPECT_EQ(workers_of(company), (std::set<int>{0, 2}));
}

TEST(ValueRoom, CountsWhatCutsHoldAtHome) {
  Company company = in_processes({2 * kEachAtHome, 0, 0}, 9);
  company.raise_all();
  EXPECT_EQ(in_flight(company).size(), 2U);
  run_and(company, [] {});
  EXPECT_EQ(num_done(company), 9U);
}

TEST(ValueRoom, IsOverrunByTasksOfAProcessThatEndedAndByNothingElse) {
  Company company =
      in_processes({2 * kEachAtHome, kEachWithCuts, kEachWithCuts}, 9);
  company.raise(1);
  company.raise(2);
  company.on(TimeTick{});
  ASSERT_EQ(in_flight(company).size(), 2U);
  company.forget(2);
  company.on(ProcessDown{2, {Errc::job_failed, "process", "has ended", {}}});
  ASSERT_EQ(in_flight(company), (std::set<std::uint64_t>{0, 1}))
      << "what was begun does not wait for room";
  while (num_done(company) == 0) {
    ASSERT_TRUE(company.run_one(1));
    while (!company.fetches.empty()) {
      const FetchValues fetch = company.fetches.front();
      company.fetches.pop_front();
      company.on(
          ValuesFetched{fetch.sample_index, fetch.run, fetch.number, {}});
    }
  }
  EXPECT_EQ(in_flight(company).size(), 1U) << "one more than fits has begun";
}

TEST(ValueRoom, KeepsRowsOfAWindowWhereItIs) {
  Company company = in_processes({0, 1}, 3, MethodKind::picard);
  company.raise_all();
  run_and(company, [] {});
  EXPECT_EQ(num_done(company), 3U);
  EXPECT_EQ(workers_of(company), std::set<int>{0});
}

TEST(ValueRoom, IsAConditionForJoining) {
  Company company = in_processes({kEachAtHome - 1}, 3);
  company.raise_all();
  company.on(ProcessJoined{1, alike(1, 1)});
  ASSERT_EQ(company.refused.size(), 1U) << "cuts would not fit at home";
  EXPECT_NE(company.refused[0].cause.message.find("in process 0"),
            std::string::npos);

  Company other = in_processes({kEachAtHome}, 3);
  other.raise_all();
  other.on(ProcessJoined{1, alike(1, 1), kEachWithCuts - 1});
  ASSERT_EQ(other.refused.size(), 1U);
  EXPECT_NE(other.refused[0].cause.message.find(
                "in process 1: got 11 B for values, expected 12 B"),
            std::string::npos)
      << other.refused[0].cause.message;
  other.on(ProcessJoined{2, alike(1, 1), kEachWithCuts});
  EXPECT_EQ(other.admitted.size(), 1U);
}

/// One worker on each GPU of the coordinator's process. `budgets` are theirs.
Company on_gpus(const std::vector<std::uint64_t>& budgets,
                std::uint64_t samples) {
  CoordinatorOptions options{.value_sizes = kStates};
  for (std::size_t gpu = 0; gpu < budgets.size(); ++gpu) {
    options.workers.push_back(
        {.device = {DeviceKind::cuda, static_cast<int>(gpu)},
         .max_rows = 2,
         .value_budget = budgets[gpu]});
  }
  return {{.kind = MethodKind::batch},
          static_cast<int>(budgets.size()),
          samples,
          options};
}

TEST(ValueRoom, OfAGpuLetsAsManySamplesBeginThereAsFit) {
  Company company = on_gpus({kEachWithCuts, 0}, 9);
  company.raise_all();
  const auto begun_on = [&company](int worker) {
    std::set<std::uint64_t> samples;
    for (const auto& [name, workers] : company.workers_of_run) {
      if (workers.contains(worker)) {
        samples.insert(name.first);
      }
    }
    return samples.size();
  };
  EXPECT_EQ(begun_on(0), 1U);
  EXPECT_EQ(begun_on(1), 2U);
  run_and(company, [] {});
  EXPECT_EQ(num_done(company), 9U);
  EXPECT_GT(begun_on(0), 1U) << "room was not given back";
}

TEST(ValueRoom, LeavesSamplesToGpusThatHaveIt) {
  Company company = on_gpus({kEachWithCuts - 1, kEachWithCuts}, 5);
  company.raise_all();
  run_and(company, [] {});
  EXPECT_EQ(num_done(company), 5U);
  EXPECT_EQ(workers_of(company), std::set<int>{1});
}

TEST(ValueRoom, NamesTheGpuThatLacksIt) {
  Company company = on_gpus({kEachWithCuts - 1}, 3);
  company.raise_all();
  ASSERT_EQ(company.times_ended, 1);
  ASSERT_TRUE(company.end.failure.has_value());
  EXPECT_NE(company.end.failure->message.find(
                "in cuda:0 of process 0: got 11 B for values, expected 12 B"),
            std::string::npos)
      << company.end.failure->message;
}

TEST(ValueRoom, OfAGpuIsAConditionForJoining) {
  Company company = in_processes({0}, 3);
  company.raise_all();
  std::vector<WorkerTraits> gpu = alike(1, 1);
  gpu.front().device = {DeviceKind::cuda, 2};
  gpu.front().value_budget = kEachWithCuts - 1;
  company.on(ProcessJoined{1, gpu});
  ASSERT_EQ(company.refused.size(), 1U);
  EXPECT_NE(company.refused[0].cause.message.find(
                "in cuda:2 of process 1: got 11 B for values, expected 12 B"),
            std::string::npos)
      << company.refused[0].cause.message;
  gpu.front().value_budget = kEachWithCuts;
  company.on(ProcessJoined{2, gpu});
  EXPECT_EQ(company.admitted.size(), 1U);
}

}  // namespace
}  // namespace troupe::actors
