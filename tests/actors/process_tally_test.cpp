// What the coordinator knows of each process's part in a job.

#include <gtest/gtest.h>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using std::chrono::milliseconds;

/// Two workers in the coordinator's process, one in another.
CoordinatorOptions two_and_one() {
  CoordinatorOptions options;
  options.workers = {{.process = 0}, {.process = 0}, {.process = 1}};
  return options;
}

TEST(ProcessTally, CountsTheRowsThatTheMethodsTook) {
  for (const MethodKind kind : {MethodKind::batch, MethodKind::pipeline}) {
    Company company({.kind = kind, .num_segments = 3}, 3, 7, two_and_one());
    company.raise_all();
    company.run_to_end();
    const std::vector<Process>& all = company.end.progress.processes;
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].work.workers, 2);
    EXPECT_EQ(all[1].process, 1);
    const std::uint64_t rows = all[0].work.rows + all[1].work.rows;
    const auto nfe = static_cast<std::uint64_t>(company.end.progress.nfe);
    EXPECT_EQ(rows, kind == MethodKind::batch ? nfe : 3 * nfe);
    EXPECT_GT(all[0].work.rows, 0U);
    EXPECT_GT(all[1].work.rows, 0U);
    const std::uint64_t tasks = all[0].work.tasks + all[1].work.tasks;
    EXPECT_GE(tasks, rows + 7) << "decodes are no rows";
  }
}

TEST(ProcessTally, SharesBusyTimeAmongTheWorkersThatWereThere) {
  Company company({.kind = MethodKind::batch}, 2, 1, [] {
    CoordinatorOptions options;
    options.workers = {{.process = 0}, {.process = 0}};
    return options;
  }());
  company.grant_duration = milliseconds(6);
  company.raise_all();
  int passes = 0;
  while (company.times_ended == 0) {
    company.now += milliseconds(10);
    const int busy = company.mailboxes[0].empty() ? 1 : 0;
    ASSERT_TRUE(company.run_one(busy));
    ++passes;
    if (!company.fetches.empty()) {
      const FetchValues fetch = company.fetches.front();
      company.fetches.pop_front();
      company.on(
          ValuesFetched{fetch.sample_index, fetch.run, fetch.number, {}});
    }
  }
  const ProcessWork& work = company.end.progress.processes.at(0).work;
  EXPECT_NEAR(work.busy_seconds, passes * 0.006, 1e-9);
  EXPECT_NEAR(work.present_seconds, passes * 0.010, 1e-9);
  EXPECT_NEAR(work.busy_share(), 0.3, 1e-9);
}

TEST(ProcessTally, EndsTheTimeOfAProcessThatLeft) {
  Company company({.kind = MethodKind::batch}, 3, 6, two_and_one());
  company.raise_all();
  company.now += milliseconds(40);
  company.on(ProcessDown{1, {}});
  company.forget(2);
  company.now += milliseconds(60);
  company.run_to_end();
  const std::vector<Process>& all = company.end.progress.processes;
  EXPECT_DOUBLE_EQ(all.at(0).work.present_seconds, 0.1);
  EXPECT_EQ(all.at(0).work.losses, 0);
  EXPECT_DOUBLE_EQ(all.at(1).work.present_seconds, 0.04);
  EXPECT_EQ(all.at(1).work.losses, 1);
}

TEST(ProcessTally, CountsEachIncarnationThatWasLostOnce) {
  Company company({.kind = MethodKind::batch}, 3, 6, two_and_one());
  company.raise_all();
  company.kill(0);
  company.raise(0);
  company.raise(0);              // over an incarnation that nobody saw end
  company.on(WorkerDown{0, 2});  // which it has heard of already
  company.run_to_end();
  EXPECT_EQ(company.end.progress.processes.at(0).work.losses, 2);
  EXPECT_EQ(company.end.progress.processes.at(1).work.losses, 0);
  EXPECT_EQ(company.end.progress.recoveries, company.end.recoveries);
}

TEST(ProcessTally, KeepsWhatAProcessHas) {
  CoordinatorOptions options;
  options.workers = {{.threads = 3}, {.threads = 1}};
  options.means = {.memory_bytes = 64, .available_memory_bytes = 32};
  Company company({.kind = MethodKind::batch}, 2, 40, options);
  company.raise_all();
  const ProcessMeans means{
      16, 8, {{{DeviceKind::cuda, 0}, "GPU", 1000}, {{}, "", 0}}};
  company.on(ProcessJoined{1, {{.threads = 5}}, 0, means});
  company.on(ProcessDown{1, {}});
  company.run_to_end();
  const std::vector<Process>& all = company.end.progress.processes;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].work.threads, 4);
  EXPECT_EQ(all[0].means, options.means);
  EXPECT_EQ(all[1].work.threads, 5);
  EXPECT_EQ(all[1].means, means) << "also once it has left";
}

TEST(ProcessWork, HasNoShareWithoutWorkersOrTime) {
  EXPECT_EQ(ProcessWork{}.busy_share(), 0);
  EXPECT_EQ((ProcessWork{.workers = 2}).busy_share(), 0);
}

}  // namespace
}  // namespace troupe::actors
