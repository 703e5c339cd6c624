#include "actors/worker_policy.h"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

Grant grant(std::uint64_t id, std::uint32_t epoch = 1) {
  Grant made;
  made.id = id;
  made.worker = 3;
  made.epoch = epoch;
  return made;
}

WorkDone done(std::uint64_t id) {
  WorkDone work;
  work.result.id = id;
  work.result.results.resize(2);
  work.result.span.duration = std::chrono::milliseconds(5);
  return work;
}

TEST(WorkerPolicy, RunsAGrantAndReportsItsResult) {
  WorkerPolicy policy(3, 1);
  ASSERT_EQ(policy.on(grant(7)).size(), 1U);
  const auto commands = policy.on(done(7));
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(std::get<GrantResult>(commands[0]).id, 7U);
  EXPECT_TRUE(policy.on(done(7)).empty()) << "it is held no more";
}

TEST(WorkerPolicy, DropsAGrantItHoldsAlready) {
  WorkerPolicy policy(3, 1);
  EXPECT_EQ(policy.on(grant(7)).size(), 1U);
  EXPECT_TRUE(policy.on(grant(7)).empty());
}

TEST(WorkerPolicy, DropsGrantsForAnotherIncarnation) {
  WorkerPolicy policy(3, 2);
  EXPECT_TRUE(policy.on(grant(7, 1)).empty());
}

TEST(WorkerPolicy, InterruptsAndTakesNothingAfterAStop) {
  WorkerPolicy policy(3, 1);
  const auto commands = policy.on(StopWork{});
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<InterruptWork>(commands[0]));
  EXPECT_TRUE(policy.on(grant(8)).empty());
}

TEST(WorkerPolicy, SaysInItsBeatHowMuchItHasDone) {
  WorkerPolicy policy(3, 1);
  const auto commands = policy.on(BeatAsked{42});
  const auto beat = std::get<WorkerBeat>(commands.at(0));
  EXPECT_EQ(beat.worker, 3);
  EXPECT_EQ(beat.ticks, 42U);
}

Grant waiting_grant(std::uint64_t id) {
  Grant made = grant(id);
  made.remote_inputs = {{{1, 0, 5}, 2}};
  return made;
}

TEST(WorkerPolicy, RunsAGrantWhenItsInputsAreFetched) {
  WorkerPolicy policy(3, 1);
  const auto commands = policy.on(waiting_grant(7));
  ASSERT_EQ(commands.size(), 1U);
  const auto& fetch = std::get<FetchInputs>(commands[0]);
  EXPECT_EQ(fetch.grant, 7U);
  EXPECT_EQ(fetch.values, waiting_grant(7).remote_inputs);
  EXPECT_TRUE(policy.on(waiting_grant(7)).empty()) << "it waits already";
  // It holds up no other.
  EXPECT_TRUE(std::holds_alternative<Grant>(policy.on(grant(8)).at(0)));
  const auto ready = policy.on(InputsFetched{7, {}});
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(std::get<Grant>(ready[0]).id, 7U);
  EXPECT_TRUE(policy.on(InputsFetched{7, {}}).empty());
}

TEST(WorkerPolicy, SaysWhichInputsWereGone) {
  WorkerPolicy policy(3, 1);
  (void)policy.on(waiting_grant(7));
  const auto commands =
      policy.on(InputsFetched{7, waiting_grant(7).remote_inputs});
  ASSERT_EQ(commands.size(), 1U);
  const auto& result = std::get<GrantResult>(commands[0]);
  EXPECT_EQ(result.id, 7U);
  EXPECT_EQ(result.worker, 3);
  EXPECT_EQ(result.epoch, 1U);
  EXPECT_EQ(result.gone, waiting_grant(7).remote_inputs);
  EXPECT_FALSE(result.failure);
}

TEST(WorkerPolicy, SaysInItsBeatThatItWaits) {
  WorkerPolicy policy(3, 1);
  const auto waits = [&] {
    return std::get<WorkerBeat>(policy.on(BeatAsked{0}).at(0)).waits;
  };
  EXPECT_FALSE(waits());
  (void)policy.on(waiting_grant(7));
  EXPECT_TRUE(waits());
  (void)policy.on(grant(8));
  EXPECT_FALSE(waits()) << "something runs";
}

TEST(WorkerPolicy, FreesWhatAGrantNamesBeforeItRuns) {
  WorkerPolicy policy(3, 1);
  Grant made = grant(7);
  made.frees = {{1, 0, {4, 5}}};
  const auto commands = policy.on(made);
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(std::get<FreeOwn>(commands[0]).frees.at(0).slots,
            (std::vector<samplers::Slot>{4, 5}));
  EXPECT_TRUE(std::holds_alternative<Grant>(commands[1]));
}

TEST(WorkerPolicy, CountsTimeOnceWhereGrantsWereQueuedBehindEachOther) {
  using std::chrono::milliseconds;
  WorkerPolicy policy(3, 1);
  const auto done_between = [&](std::uint64_t id, int start, int end) {
    (void)policy.on(grant(id));
    WorkDone work = done(id);
    work.result.span.start = TimePoint(milliseconds(start));
    work.result.span.duration = milliseconds(end - start);
    return std::get<GrantResult>(policy.on(work).at(0)).span;
  };
  (void)done_between(1, 10, 20);
  const TraceSpan behind = done_between(2, 12, 35);
  EXPECT_EQ(behind.start, TimePoint(milliseconds(20)));
  EXPECT_EQ(behind.duration, milliseconds(15));
  const TraceSpan later = done_between(3, 50, 60);
  EXPECT_EQ(later.start, TimePoint(milliseconds(50)));
  EXPECT_EQ(later.duration, milliseconds(10));
}

}  // namespace
}  // namespace troupe::actors
