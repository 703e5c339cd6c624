#include "actors/packer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace troupe::actors {
namespace {

using samplers::Op;

SampleTask task(std::uint64_t sample, Op op, int segment = 0,
                std::uint64_t id = 1) {
  return {sample, {.id = id, .op = op, .segment = segment}};
}

std::vector<std::uint64_t> samples(const std::vector<SampleTask>& group) {
  std::vector<std::uint64_t> found;
  for (const SampleTask& bound : group) {
    found.push_back(bound.sample_index);
  }
  return found;
}

TEST(Packer, JoinsEvaluationsOfDifferentSamplesInOrderOfArrival) {
  Packer packer;
  for (const std::uint64_t sample : {3U, 1U, 4U, 0U, 2U}) {
    packer.push(task(sample, Op::evaluate));
  }
  EXPECT_EQ(samples(packer.next(3)), (std::vector<std::uint64_t>{3, 1, 4}));
  EXPECT_EQ(samples(packer.next(3)), (std::vector<std::uint64_t>{0, 2}));
  EXPECT_TRUE(packer.empty());
}

TEST(Packer, GivesNothingWhenNothingWaits) {
  Packer packer;
  EXPECT_TRUE(packer.next(4).empty());
}

TEST(Packer, GivesAtLeastOneRow) {
  Packer packer;
  packer.push(task(0, Op::evaluate));
  EXPECT_EQ(packer.next(0).size(), 1U);
}

TEST(Packer, LetsCheapTasksGoFirst) {
  Packer packer;
  packer.push(task(0, Op::evaluate));
  packer.push(task(1, Op::decode));
  packer.push(task(2, Op::step));
  packer.push(task(3, Op::sweep));
  packer.push(task(4, Op::combine));
  EXPECT_EQ(samples(packer.next(1)), (std::vector<std::uint64_t>{2, 3, 4}));
  // A decode has no precedence.
  EXPECT_EQ(samples(packer.next(1)), std::vector<std::uint64_t>{0});
  EXPECT_EQ(samples(packer.next(1)), std::vector<std::uint64_t>{1});
}

TEST(Packer, RunsADecodeByItself) {
  Packer packer;
  packer.push(task(0, Op::decode));
  packer.push(task(1, Op::decode));
  packer.push(task(2, Op::evaluate));
  EXPECT_EQ(packer.next(8).size(), 1U);
  EXPECT_EQ(packer.next(8).size(), 1U);
}

TEST(Packer, RunsATaskAloneThatIsToRunAlone) {
  Packer packer;
  for (std::uint64_t sample = 0; sample < 4; ++sample) {
    SampleTask one = task(sample, Op::evaluate);
    one.alone = sample == 1;
    packer.push(one);
  }
  EXPECT_EQ(samples(packer.next(8)), (std::vector<std::uint64_t>{0, 2, 3}));
  EXPECT_EQ(samples(packer.next(8)), std::vector<std::uint64_t>{1});
  for (std::uint64_t sample = 0; sample < 3; ++sample) {
    SampleTask one = task(sample, Op::step);
    one.alone = sample == 1;
    packer.push(one);
  }
  EXPECT_EQ(samples(packer.next(1)), std::vector<std::uint64_t>{0});
  EXPECT_EQ(samples(packer.next(1)), std::vector<std::uint64_t>{1});
  EXPECT_EQ(samples(packer.next(1)), std::vector<std::uint64_t>{2});
}

TEST(Packer, KeepsSegmentsApart) {
  Packer packer;
  packer.push(task(0, Op::segment, 1));
  packer.push(task(1, Op::segment, 0));
  packer.push(task(2, Op::segment, 1));
  packer.push(task(3, Op::evaluate));
  EXPECT_EQ(samples(packer.next(8)), (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(samples(packer.next(8)), std::vector<std::uint64_t>{1});
  EXPECT_EQ(samples(packer.next(8)), std::vector<std::uint64_t>{3});
}

TEST(Packer, GivesUpTheTasksOfGrants) {
  Packer packer;
  for (std::uint64_t grant = 1; grant < 5; ++grant) {
    SampleTask one = task(grant, grant % 2 == 0 ? Op::step : Op::evaluate);
    one.grant = grant;
    packer.push(one);
  }
  EXPECT_EQ(samples(packer.take({2, 3, 9})),
            (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(packer.size(), 2U);
}

TEST(Packer, DropsRunsThatAreOver) {
  Packer packer;
  const auto push = [&packer](std::uint64_t sample, Op op, std::uint32_t run) {
    SampleTask one = task(sample, op);
    one.run = run;
    packer.push(one);
  };
  push(0, Op::evaluate, 0);
  push(1, Op::step, 0);
  push(1, Op::evaluate, 0);
  push(1, Op::evaluate, 1);
  EXPECT_EQ(packer.drop(1, 0).size(), 2U);
  EXPECT_EQ(packer.size(), 2U);
  EXPECT_EQ(samples(packer.next(8)), (std::vector<std::uint64_t>{0, 1}));
}

RC_GTEST_PROP(Packer, HandsOutEveryTaskOnceInGroupsOfOneKind, ()) {
  const std::vector<Op> ops = {Op::evaluate, Op::segment, Op::combine,
                               Op::step,     Op::sweep,   Op::decode};
  Packer packer;
  std::multiset<std::uint64_t> waiting;
  std::uint64_t next_id = 1;
  for (int round = 0; round < 30; ++round) {
    for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
      packer.push(task(*rc::gen::inRange(0, 3),
                       ops[*rc::gen::inRange<std::size_t>(0, ops.size())],
                       *rc::gen::inRange(0, 3), next_id));
      waiting.insert(next_id++);
    }
    const int max_rows = *rc::gen::inRange(1, 5);
    const auto group = packer.next(max_rows);
    RC_ASSERT(group.empty() == waiting.empty());
    for (const SampleTask& bound : group) {
      RC_ASSERT(waiting.erase(bound.task.id) == 1U);
      if (bound.task.op == Op::evaluate || bound.task.op == Op::segment) {
        RC_ASSERT(group.size() <= static_cast<std::size_t>(max_rows));
        RC_ASSERT(bound.task.op == group.front().task.op);
        if (bound.task.op == Op::segment) {
          RC_ASSERT(bound.task.segment == group.front().task.segment);
        }
      }
    }
    RC_ASSERT(packer.size() == waiting.size());
  }
}

TEST(Packer, LetsNoForwardWaitForEver) {
  Packer packer;
  packer.push(task(0, Op::segment, 7));
  for (std::uint64_t sample = 1; sample < 4; ++sample) {
    packer.push(task(sample, Op::evaluate));
  }
  // However many tasks come after it, the first goes next.
  EXPECT_EQ(samples(packer.next(2)), std::vector<std::uint64_t>{0});
}

}  // namespace
}  // namespace troupe::actors
