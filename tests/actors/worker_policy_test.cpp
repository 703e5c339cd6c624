#include "actors/worker_policy.h"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using samplers::Op;
using samplers::Slot;

constexpr int kProcess = 1;  ///< the worker's

SampleTask task(std::uint64_t number, std::uint64_t sample = 1,
                samplers::Slots inputs = {0}) {
  return {sample,
          {.id = number, .op = Op::evaluate, .inputs = std::move(inputs)},
          0,
          number};
}

Grant grant(std::vector<SampleTask> tasks, int max_rows = 1,
            std::uint32_t epoch = 1) {
  Grant made;
  made.worker = 3;
  made.epoch = epoch;
  made.tasks = std::move(tasks);
  made.max_rows = max_rows;
  return made;
}

WorkDone done(std::vector<std::uint64_t> grants) {
  WorkDone work;
  work.result.grants = std::move(grants);
  work.result.span.duration = std::chrono::milliseconds(5);
  return work;
}

std::vector<std::uint64_t> numbers(const std::optional<Grant>& pass) {
  std::vector<std::uint64_t> found;
  if (pass) {
    for (const SampleTask& one : pass->tasks) {
      found.push_back(one.grant);
    }
  }
  return found;
}

using Numbers = std::vector<std::uint64_t>;

TEST(WorkerPolicy, RunsATaskAndReportsItsResult) {
  WorkerPolicy policy(3, 1, kProcess);
  EXPECT_FALSE(policy.has_next());
  EXPECT_TRUE(policy.on(grant({task(7)})).empty());
  ASSERT_TRUE(policy.has_next());
  EXPECT_EQ(numbers(policy.next()), Numbers{7});
  const auto commands = policy.on(done({7}));
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(std::get<GrantResult>(commands[0]).grants, Numbers{7});
  EXPECT_TRUE(policy.held().empty());
}

TEST(WorkerPolicy, GivesBackWhatItHasNotBegun) {
  WorkerPolicy policy(3, 1, kProcess);
  Grant work = grant({task(7), task(8), task(9, 1, {4})});
  work.sources = {{{1, 0, 4}, kProcess}};
  (void)policy.on(work);
  EXPECT_EQ(numbers(policy.next()), Numbers{7});
  const auto commands = policy.on(Recall{3, 1, {7, 8, 9, 10}});
  ASSERT_EQ(commands.size(), 1U);
  const auto& result = std::get<GrantResult>(commands[0]);
  EXPECT_TRUE(std::holds_alternative<TasksReturned>(result.outcome));
  EXPECT_EQ(std::set(result.grants.begin(), result.grants.end()),
            (std::set<std::uint64_t>{8, 9}));
  EXPECT_EQ(policy.held(), Numbers{7});
  // Asked again it has nothing to say, and the input wakes nobody.
  EXPECT_TRUE(policy.on(Recall{3, 1, {8, 9}}).empty());
  EXPECT_TRUE(policy.on(InputHere{{1, 0, 4}}).empty());
  EXPECT_EQ(policy.on(done({7})).size(), 1U);
  EXPECT_FALSE(policy.has_next());
}

TEST(WorkerPolicy, GivesNothingBackToWhoAsksAnotherIncarnation) {
  WorkerPolicy policy(3, 2, kProcess);
  (void)policy.on(grant({task(7)}, 1, 2));
  EXPECT_TRUE(policy.on(Recall{3, 1, {7}}).empty());
  EXPECT_TRUE(policy.has_next());
}

TEST(WorkerPolicy, RunsOnePassAtATimeOrAsManyAsItIsTold) {
  for (const int passes : {1, 2}) {
    WorkerPolicy policy(3, 1, kProcess, passes);
    (void)policy.on(grant({task(1), task(2), task(3)}));
    for (int i = 0; i < passes; ++i) {
      EXPECT_TRUE(policy.next());
    }
    EXPECT_FALSE(policy.has_next());
    EXPECT_FALSE(policy.next());
    (void)policy.on(done({1}));
    EXPECT_TRUE(policy.has_next());
  }
}

TEST(WorkerPolicy, JoinsWhatItHasIntoOnePass) {
  WorkerPolicy policy(3, 1, kProcess);
  (void)policy.on(grant({task(1, 1), task(2, 2), task(3, 3)}, 2));
  EXPECT_EQ(numbers(policy.next()), (Numbers{1, 2}));
  // Of two grants, and with the rows that the last one allows.
  (void)policy.on(grant({task(4, 4), task(5, 5)}, 3));
  (void)policy.on(done({1, 2}));
  EXPECT_EQ(numbers(policy.next()), (Numbers{3, 4, 5}));
}

/// Reads what the evaluation `output` and the sweep before it make.
SampleTask sweep(std::uint64_t number, Slot left, Slot output, Slot swept) {
  SampleTask made = task(number, 1, {left, output});
  made.task.op = Op::sweep;
  made.task.outputs = {swept};
  return made;
}

TEST(WorkerPolicy, SweepsInOnePassWhatItHasTheOutputsFor) {
  WorkerPolicy policy(3, 1, kProcess);
  Grant work = grant({sweep(1, 0, 11, 21), sweep(2, 21, 12, 22),
                      sweep(3, 22, 13, 23), sweep(4, 23, 14, 24)});
  for (const Slot slot : {11U, 12U, 13U, 14U, 21U, 22U, 23U}) {
    work.sources.push_back({{1, 0, slot}, kProcess});
  }
  work.tasks[3].alone = true;
  (void)policy.on(std::move(work));
  EXPECT_FALSE(policy.has_next());
  // The third waits for an evaluation, and what follows from it too.
  for (const Slot slot : {12U, 14U, 11U}) {
    (void)policy.on(InputHere{{1, 0, slot}});
  }
  EXPECT_EQ(numbers(policy.next()), (Numbers{1, 2}));
  (void)policy.on(InputHere{{1, 0, 13}});
  for (const Slot slot : {21U, 22U}) {
    (void)policy.on(InputHere{{1, 0, slot}});
  }
  (void)policy.on(done({1, 2}));
  // One that is to run alone does.
  EXPECT_EQ(numbers(policy.next()), Numbers{3});
  (void)policy.on(InputHere{{1, 0, 23}});
  (void)policy.on(done({3}));
  EXPECT_EQ(numbers(policy.next()), Numbers{4});
  (void)policy.on(done({4}));
  EXPECT_TRUE(policy.held().empty());
}

TEST(WorkerPolicy, JoinsNoReaderOfAForwardPassToIt) {
  WorkerPolicy policy(3, 1, kProcess);
  SampleTask first = task(1);
  first.task.outputs = {11};
  Grant work = grant({first, sweep(2, 0, 11, 21)});
  work.sources = {{{1, 0, 11}, kProcess}};
  (void)policy.on(std::move(work));
  EXPECT_EQ(numbers(policy.next()), Numbers{1});
  (void)policy.on(InputHere{{1, 0, 11}});
  (void)policy.on(done({1}));
  EXPECT_EQ(numbers(policy.next()), Numbers{2});
}

TEST(WorkerPolicy, DropsATaskThatItHasHadAlready) {
  WorkerPolicy policy(3, 1, kProcess);
  (void)policy.on(grant({task(7)}));
  (void)policy.on(grant({task(7)}));
  EXPECT_TRUE(policy.next());
  (void)policy.on(done({7}));
  EXPECT_FALSE(policy.has_next());
}

TEST(WorkerPolicy, DropsGrantsForAnotherIncarnation) {
  WorkerPolicy policy(3, 2, kProcess);
  (void)policy.on(grant({task(7)}));
  EXPECT_FALSE(policy.has_next());
}

TEST(WorkerPolicy, InterruptsAndRunsNothingAfterAStop) {
  WorkerPolicy policy(3, 1, kProcess);
  (void)policy.on(grant({task(7)}));
  const auto commands = policy.on(StopWork{});
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<InterruptWork>(commands[0]));
  EXPECT_FALSE(policy.has_next());
  (void)policy.on(grant({task(8)}));
  EXPECT_FALSE(policy.next());
}

TEST(WorkerPolicy, SaysInItsBeatHowMuchItHasDone) {
  WorkerPolicy policy(3, 1, kProcess);
  const auto commands = policy.on(BeatAsked{42});
  const auto beat = std::get<WorkerBeat>(commands.at(0));
  EXPECT_EQ(beat.worker, 3);
  EXPECT_EQ(beat.ticks, 42U);
}

/// Two tasks that read slot 5, which is in process 2, and a task without remote
/// inputs.
Grant remote_grant() {
  Grant made = grant({task(7, 1, {5}), task(8, 1, {0, 5}), task(9, 2)}, 4);
  made.sources = {{{1, 0, 5}, 2}};
  return made;
}

TEST(WorkerPolicy, FiresTasksWhenTheirInputsAreFetched) {
  WorkerPolicy policy(3, 1, kProcess);
  const auto commands = policy.on(remote_grant());
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(std::get<FetchInputs>(commands[0]).values, remote_grant().sources)
      << "once for both";
  // They hold up no other.
  EXPECT_EQ(numbers(policy.next()), Numbers{9});
  (void)policy.on(done({9}));
  EXPECT_TRUE(policy.on(InputHere{{1, 0, 5}}).empty());
  const auto pass = policy.next();
  EXPECT_EQ(numbers(pass), (Numbers{7, 8}));
  EXPECT_EQ(pass->sources.at(0), remote_grant().sources[0]);
  EXPECT_TRUE(policy.on(InputHere{{1, 0, 5}}).empty());
}

TEST(WorkerPolicy, FiresATaskWhenItsOwnProcessHasMadeItsInputs) {
  WorkerPolicy policy(3, 1, kProcess);
  Grant made = grant({task(7, 1, {5, 6})});
  made.sources = {{{1, 0, 5}, kProcess}, {{1, 0, 6}, kProcess}};
  const auto commands = policy.on(made);
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(std::get<FetchInputs>(commands[0]).values, made.sources);
  (void)policy.on(InputHere{{1, 0, 6}});
  EXPECT_FALSE(policy.has_next());
  (void)policy.on(InputHere{{1, 0, 5}});
  EXPECT_EQ(numbers(policy.next()), Numbers{7});
}

TEST(WorkerPolicy, SaysWhichInputsWereGone) {
  WorkerPolicy policy(3, 1, kProcess);
  (void)policy.on(remote_grant());
  const auto commands = policy.on(InputGone{{{1, 0, 5}, 2}});
  ASSERT_EQ(commands.size(), 1U);
  const auto& result = std::get<GrantResult>(commands[0]);
  EXPECT_EQ(result.grants, (Numbers{7, 8}));
  EXPECT_EQ(result.worker, 3);
  EXPECT_EQ(result.epoch, 1U);
  EXPECT_EQ(std::get<InputsGone>(result.outcome).values,
            remote_grant().sources);
  EXPECT_EQ(policy.held(), Numbers{9});
}

TEST(WorkerPolicy, DoesNotWaitForItsOwnProcessAfterOthersAreToMakeTheInput) {
  WorkerPolicy policy(3, 1, kProcess);
  const ValueName name{1, 0, 5};
  Grant before = grant({task(7, 1, {5})});
  before.sources = {{name, kProcess}};
  (void)policy.on(before);
  ASSERT_EQ(policy.on(Recall{3, 1, {7}}).size(), 1U);
  // Granted once more, when another process has the input.
  Grant after = grant({task(8, 1, {5})});
  after.sources = {{name, 2}};
  const auto questions = policy.on(after);
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(std::get<FetchInputs>(questions[0]).values, after.sources);
  // That process has left.
  const auto commands = policy.on(InputGone{{name, 2}});
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(std::get<GrantResult>(commands[0]).grants, Numbers{8});
  EXPECT_TRUE(policy.held().empty());
}

TEST(WorkerPolicy, AsksNewSourcesForTheInputsThatATaskWaitsFor) {
  const ValueName name{1, 0, 5};
  for (const int maker : {kProcess, 2, 4}) {
    SCOPED_TRACE("process " + std::to_string(maker));
    WorkerPolicy policy(3, 1, kProcess);
    (void)policy.on(remote_grant());
    const auto none = policy.on(Redirect{3, 2, 7, {{name, maker}}});
    EXPECT_TRUE(none.empty()) << "of another incarnation";
    // Task 9 is ready, and 10 was never granted; 7 does not read slot 6.
    EXPECT_TRUE(policy.on(Redirect{3, 1, 9, {{{2, 0, 0}, 4}}}).empty());
    EXPECT_TRUE(policy.on(Redirect{3, 1, 10, {{name, maker}}}).empty());
    EXPECT_TRUE(policy.on(Redirect{3, 1, 7, {{{1, 0, 6}, 4}}}).empty());
    const auto questions = policy.on(Redirect{3, 1, 7, {{name, maker}}});
    const bool is_asked_already = maker == 2;
    ASSERT_EQ(questions.size(), is_asked_already ? 0U : 1U);
    if (!is_asked_already) {
      EXPECT_EQ(std::get<FetchInputs>(questions[0]).values,
                (std::vector<RemoteValue>{{name, maker}}));
      // Process 2, which was to give it before, has gone.
      EXPECT_TRUE(policy.on(InputGone{{name, 2}}).empty());
    }
    EXPECT_TRUE(policy.on(InputHere{name}).empty());
    const auto pass = policy.next();
    EXPECT_EQ(numbers(pass), (Numbers{9, 7, 8}));
    // What the worker's process has made was not fetched for task 7.
    EXPECT_EQ(std::ranges::count(pass->sources, RemoteValue{name, kProcess}),
              0);
    EXPECT_EQ(pass->sources.size(), maker == kProcess ? 1U : 3U);
  }
}

TEST(WorkerPolicy, SaysInItsBeatThatItWaits) {
  WorkerPolicy policy(3, 1, kProcess);
  const auto waits = [&] {
    return std::get<WorkerBeat>(policy.on(BeatAsked{0}).at(0)).waits;
  };
  EXPECT_FALSE(waits());
  Grant made = remote_grant();
  made.tasks.pop_back();
  (void)policy.on(made);
  EXPECT_TRUE(waits());
  (void)policy.on(grant({task(10)}));
  EXPECT_FALSE(waits()) << "something is ready";
  (void)policy.next();
  EXPECT_FALSE(waits()) << "something runs";
}

TEST(WorkerPolicy, FreesWhatAGrantNames) {
  WorkerPolicy policy(3, 1, kProcess);
  Grant made = grant({task(7)});
  made.frees = {{1, 0, {4, 5}}};
  const auto commands = policy.on(made);
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(std::get<FreeOwn>(commands[0]).frees.at(0).slots,
            (samplers::Slots{4, 5}));
  EXPECT_TRUE(policy.has_next());
}

TEST(WorkerPolicy, ForgetsRunsThatAreOver) {
  WorkerPolicy policy(3, 1, kProcess);
  (void)policy.on(remote_grant());
  Grant next = grant({task(11)});
  next.tasks[0].run = 1;
  (void)policy.on(next);
  (void)policy.on(DropRuns{2, 1, 0U});
  EXPECT_EQ(policy.held(), (Numbers{9, 11}));
  EXPECT_TRUE(policy.on(InputHere{{1, 0, 5}}).empty());
  EXPECT_TRUE(policy.on(InputGone{{{1, 0, 5}, 2}}).empty());
  (void)policy.on(DropRuns{2, 1, {}});
  EXPECT_EQ(policy.held(), Numbers{9});
  EXPECT_EQ(numbers(policy.next()), Numbers{9});
}

TEST(WorkerPolicy, CountsTimeOnceWherePassesWereQueuedBehindEachOther) {
  using std::chrono::milliseconds;
  WorkerPolicy policy(3, 1, kProcess, 2);
  const auto done_between = [&](std::uint64_t id, int start, int end) {
    (void)policy.on(grant({task(id)}));
    (void)policy.next();
    WorkDone work = done({id});
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
