// Devices of several kinds in one job, and devices that fail.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <random>

#include "actors/value_store.h"
#include "samplers/noise_source.h"
#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Device kFirstGpu{DeviceKind::cuda, 0};
constexpr Device kSecondGpu{DeviceKind::cuda, 1};

/// Runs of samples that were on a worker of `company` when it held `worker`.
bool ran_on(const Company& company, std::uint64_t sample, std::uint32_t run,
            int worker) {
  const auto found = company.workers_of_run.find({sample, run});
  return found != company.workers_of_run.end() &&
         found->second.contains(worker);
}

TEST(DeviceLoss, TakesAllWorkersOfTheGpuAndBeginsItsSamplesAnew) {
  // Two workers on the first GPU, one on the second, all of one class.
  Company company({.kind = MethodKind::batch}, 3, 9,
                  {.workers = {{0, kFirstGpu}, {0, kFirstGpu}, {0, kSecondGpu}},
                   .decode = false});
  company.raise_all();
  for (int i = 0; i < 3; ++i) {
    company.run_one(0);
    company.run_one(1);
  }
  company.on(company.fail(company.take(0), Errc::device_lost));
  EXPECT_EQ(company.retired, (std::set<int>{0, 1}));
  company.run_to_end();
  ASSERT_EQ(num_done(company), 9U);
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(company.end.recoveries, 1);
  ASSERT_EQ(company.end.lost.size(), 1U);
  EXPECT_EQ(company.end.lost[0].device, kFirstGpu);
  EXPECT_EQ(company.end.lost[0].cause.code, Errc::device_lost);
  int again = 0;
  for (std::uint64_t sample = 0; sample < 9; ++sample) {
    const bool was_there =
        ran_on(company, sample, 0, 0) || ran_on(company, sample, 0, 1);
    // What lay on the other GPU alone goes on as if nothing had happened.
    EXPECT_EQ(company.workers_of_run.contains({sample, 1}),
              was_there && company.reports.size() == 9 &&
                  ran_on(company, sample, 1, 2));
    again += company.workers_of_run.contains({sample, 1}) ? 1 : 0;
  }
  EXPECT_GE(again, 2);
}

TEST(DeviceLoss, LeavesSamplesOfOtherDevicesAlone) {
  Company company({.kind = MethodKind::batch}, 2, 2,
                  {.workers = {{0, kFirstGpu}, {0, kSecondGpu}}});
  company.grant_duration = milliseconds(20);
  company.raise_all();
  company.run_one(0);
  company.run_one(1);
  company.on(company.fail(company.take(0), Errc::device_lost));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_TRUE(company.workers_of_run.contains({0, 1}));
  EXPECT_FALSE(company.workers_of_run.contains({1, 1}));
}

TEST(DeviceLoss, TakesNothingFromASampleThatHasNothingThere) {
  Company company({.kind = MethodKind::batch}, 2, 2,
                  {.workers = {{0, kFirstGpu}, {0, kSecondGpu}}});
  company.grant_duration = milliseconds(20);
  company.raise_all();
  company.on(company.fail(company.take(0), Errc::device_lost));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_FALSE(company.workers_of_run.contains({0, 1}));
}

TEST(DeviceLoss, BlamesNoWorkerForWhatItReadsElsewhere) {
  Company company({.kind = MethodKind::batch}, 2, 2,
                  {.workers = {{0, kFirstGpu}, {0, kSecondGpu}}});
  company.grant_duration = milliseconds(20);
  company.raise_all();
  company.run_one(0);
  GrantResult result = company.fail(company.take(0), Errc::device_lost);
  std::get<TasksFailed>(result.outcome).is_elsewhere = true;
  company.on(result);
  EXPECT_TRUE(company.retired.empty());
  EXPECT_TRUE(company.workers_of_run.contains({0, 1}));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_TRUE(company.end.lost.empty());
  EXPECT_EQ(company.end.recoveries, 1);
}

TEST(DeviceLoss, GivesUpASampleWhoseInputsAreLostForEver) {
  Company company({.kind = MethodKind::batch}, 1, 1,
                  {.workers = {{0, kFirstGpu}}});
  company.raise_all();
  int failures = 0;
  for (; company.times_ended == 0 && failures < 1000; ++failures) {
    GrantResult result = company.fail(company.take(0), Errc::device_lost);
    std::get<TasksFailed>(result.outcome).is_elsewhere = true;
    company.on(result);
  }
  EXPECT_LT(failures, 100);
  ASSERT_TRUE(company.end.failure);
  EXPECT_EQ(company.end.failure->code, Errc::device_lost);
}

TEST(DeviceLoss, MovesSamplesToAnotherClassWhenTheirsIsGone) {
  Company company({.kind = MethodKind::batch}, 2, 6,
                  {.workers = {{0, kFirstGpu}, {1, {}}}});
  company.raise_all();
  for (int i = 0; i < 4; ++i) {
    company.run_one(0);
  }
  ASSERT_EQ(num_done(company), 0U);
  company.on(company.fail(company.take(0), Errc::device_lost));
  company.run_to_end();
  ASSERT_EQ(num_done(company), 6U);
  for (const SampleReport& report : company.reports) {
    EXPECT_EQ(report.execution_class, 1) << report.sample_index;
    EXPECT_EQ(report.progress.accepted, 5);
  }
}

TEST(DeviceLoss, EndsTheJobWithItsCauseWhenNothingIsLeft) {
  Company company({.kind = MethodKind::batch}, 2, 6,
                  {.workers = {{0, kFirstGpu}, {0, kSecondGpu}}});
  company.raise_all();
  company.on(company.fail(company.take(0), Errc::device_lost));
  EXPECT_EQ(company.times_ended, 0);
  company.on(company.fail(company.take(1), Errc::device_lost));
  ASSERT_EQ(company.times_ended, 1);
  ASSERT_TRUE(company.end.failure);
  EXPECT_EQ(company.end.failure->code, Errc::device_lost);
  EXPECT_EQ(company.end.lost.size(), 2U);
  EXPECT_EQ(company.end.unfinished.size(), 6U);
}

TEST(DeviceLoss, StopsWaitingForAWorkerThatIsGoneForGood) {
  Company company({.kind = MethodKind::batch}, 2, 3,
                  {.workers = {{0, kFirstGpu}, {1, {}}}});
  company.raise(1);
  company.on(
      WorkerDown{0, 1, Failure{Errc::unsupported, "cuda:0", "no library", {}}});
  company.run_to_end();
  EXPECT_EQ(num_done(company), 3U);
  EXPECT_EQ(company.end.lost.size(), 1U);
  company.raise(0);  // too late: it was given up
  EXPECT_TRUE(company.mailboxes[0].empty());
}

TEST(DeviceLoss, WaitsForAWorkerOfTheClassThatIsStartedAgain) {
  Company company({.kind = MethodKind::batch}, 2, 2,
                  {.workers = {{0, kFirstGpu}, {1, {}}}});
  company.grant_duration = milliseconds(20);
  company.raise_all();
  company.run_one(0);
  company.kill(0);
  while (company.run_one(1)) {
  }
  EXPECT_EQ(company.times_ended, 0);
  company.raise(0);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_FALSE(company.workers_of_run.contains({0, 1}));
}

TEST(DeviceLoss, HalvesTheRowsOfAGpuWithoutRoomAndThenGivesItUp) {
  Company company({.kind = MethodKind::batch}, 2, 8,
                  {.workers = {{0, kFirstGpu, 4}, {1, {}, 1}}});
  company.grant_duration = milliseconds(20);
  company.raise_all();
  // The second half was granted before the first one failed.
  for (const std::size_t rows : {4U, 2U, 2U, 1U}) {
    const Grant grant = company.take(0);
    ASSERT_EQ(grant.tasks.size(), rows);
    EXPECT_TRUE(company.retired.empty());
    company.on(company.fail(grant, Errc::device_full));
  }
  EXPECT_EQ(company.retired, std::set<int>{0});
  company.run_to_end();
  EXPECT_EQ(num_done(company), 8U);
  EXPECT_EQ(company.end.lost.at(0).cause.code, Errc::device_full);
  EXPECT_GE(company.end.recoveries, 3);
}

TEST(DeviceLoss, IsNotTheLackOfTheHostsMemory) {
  Company company({.kind = MethodKind::batch}, 2, 4,
                  {.workers = {{0, kFirstGpu}, {0, kSecondGpu}}});
  company.raise_all();
  company.on(company.fail(company.take(0), Errc::out_of_memory));
  EXPECT_TRUE(company.retired.empty());
  ASSERT_EQ(company.times_ended, 1);
  EXPECT_EQ(company.end.failure->code, Errc::out_of_memory);
  EXPECT_TRUE(company.end.lost.empty());
}

TEST(DeviceLoss, KeepsWhatLiesInTheMemoryOfAGpuThatIsOnlyFull) {
  Company company({.kind = MethodKind::batch}, 2, 1,
                  {.workers = {{0, kFirstGpu}, {0, kSecondGpu}}});
  company.raise_all();
  company.run_one(0);
  company.on(company.fail(company.take(0), Errc::device_full));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_FALSE(company.workers_of_run.contains({0, 1}));
}

TEST(Classes, TakeOverFromASlowerClassNearTheEnd) {
  Company company({.kind = MethodKind::batch}, 2, 3,
                  {.workers = {{0, kFirstGpu}, {1, {}}}});
  company.grant_duration = milliseconds(20);
  company.raise_all();
  const Grant slow = company.take(1);
  const std::uint64_t held = slow.tasks[0].sample_index;
  while (num_done(company) < 2) {
    company.now += milliseconds(20);
    ASSERT_TRUE(company.run_one(0));
  }
  company.on(TimeTick{});
  // Its first call takes longer than a whole sample there.
  EXPECT_TRUE(ran_on(company, held, 1, 0));
  company.on(company.answer(slow));  // late: nobody waits for it
  company.run_to_end();
  EXPECT_EQ(num_done(company), 3U);
  EXPECT_EQ(company.reports.back().execution_class, 0);
  EXPECT_EQ(company.end.recoveries, 0);
}

TEST(Classes, DoNotMixInOneSampleWhateverHappens) {
  rc::check([] {
    const auto kind = *rc::gen::element(
        MethodKind::sequential, MethodKind::batch, MethodKind::cfg,
        MethodKind::picard, MethodKind::pipeline, MethodKind::stale);
    const int workers = *rc::gen::inRange(2, 7);
    const auto samples = *rc::gen::inRange<std::uint64_t>(1, 9);
    std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
    CoordinatorOptions options{.max_losses = 0};
    for (int w = 0; w < workers; ++w) {
      // The first worker is the CPU: it stays.
      const int gpu = static_cast<int>(random() % 3);
      options.workers.push_back(
          w == 0 ? WorkerTraits{.max_rows = 2}
                 : WorkerTraits{1 + gpu % 2, {DeviceKind::cuda, gpu}, 2});
    }
    Company company({.kind = kind, .window_size = 3, .num_segments = 3},
                    workers, samples, options);
    company.grant_duration = milliseconds(random() % 8);
    company.raise_all();
    for (int i = 0; i < 100000 && company.times_ended == 0; ++i) {
      const int w = static_cast<int>(random() % static_cast<unsigned>(workers));
      const bool has_work =
          !company.mailboxes[static_cast<std::size_t>(w)].empty();
      company.now += milliseconds(random() % 5);
      if (random() % 40 == 0 && !company.retired.contains(w)) {
        company.kill(w);
        company.raise(w);
      } else if (random() % 40 == 0 && w > 0 && has_work) {
        company.on(company.fail(company.take(w), random() % 2 == 0
                                                     ? Errc::device_lost
                                                     : Errc::device_full));
      } else {
        company.run_one(w);
      }
    }
    RC_ASSERT(company.times_ended == 1);
    RC_ASSERT(!company.end.failure);
    RC_ASSERT(num_done(company) == samples);
    std::set<std::uint64_t> seen;
    for (const SampleReport& report : company.reports) {
      RC_ASSERT(seen.insert(report.sample_index).second);
      RC_ASSERT(report.progress.accepted == 5);
    }
    for (const auto& [run, who] : company.workers_of_run) {
      std::set<int> classes;
      for (const int worker : who) {
        classes.insert(
            options.workers[static_cast<std::size_t>(worker)].execution_class);
      }
      RC_ASSERT(classes.size() == 1U);
    }
  });
}

TEST(Plan, GroupsWorkersWithinTheirClass) {
  const auto groups = group_workers(std::vector<int>{0, 1, 0, 1, 1}, 2);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].workers, (std::vector<int>{0, 2}));
  EXPECT_EQ(groups[1].workers, (std::vector<int>{1, 3}));
  EXPECT_EQ(groups[2].workers, (std::vector<int>{4}));
  EXPECT_EQ(groups[1].execution_class, 1);
}

TEST(ValueStore, ShowsLateWorkOfAnEarlierRunToNobody) {
  const samplers::Schedule& schedule = short_schedule();
  samplers::PhiloxNoise noise(3);
  ValueStore store(schedule, noise, {1, 2, 2});
  const auto first = store.open(5);
  first->put(7, Tensor({1}, DType::f32));
  const auto second = store.open(5, 1);
  EXPECT_FALSE(second->find(7));
  EXPECT_TRUE(second->find(samplers::kInitialSlot));
  store.open(5, 0)->put(8, Tensor({1}, DType::f32));
  EXPECT_EQ(store.open(5, 1).get(), second.get());
  EXPECT_FALSE(second->find(8));
  EXPECT_EQ(store.size(), 1U);
}

}  // namespace
}  // namespace troupe::actors
