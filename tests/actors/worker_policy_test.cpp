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
