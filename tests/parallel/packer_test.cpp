#include "samplers/parallel/packer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace troupe::samplers {
namespace {

BoundTask task(std::uint64_t sample, Op op, int segment = 0,
               std::uint64_t id = 1) {
  return {sample, {.id = id, .op = op, .segment = segment}, nullptr};
}

std::vector<std::uint64_t> samples(const std::vector<BoundTask>& group) {
  std::vector<std::uint64_t> found;
  for (const BoundTask& bound : group) {
    found.push_back(bound.sample_index);
  }
  return found;
}

TEST(Packer, JoinsEvaluationsOfDifferentSamplesInOrderOfArrival) {
  Packer packer;
  for (std::uint64_t sample = 0; sample < 5; ++sample) {
    packer.push(task(sample, Op::evaluate));
  }
  EXPECT_EQ(samples(packer.next(3)), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(samples(packer.next(3)), (std::vector<std::uint64_t>{3, 4}));
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
  EXPECT_EQ(samples(packer.next(1)), std::vector<std::uint64_t>{1});
  EXPECT_EQ(samples(packer.next(1)), std::vector<std::uint64_t>{0});
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

TEST(Packer, ForgetsACancelledSample) {
  Packer packer;
  packer.push(task(0, Op::evaluate));
  packer.push(task(1, Op::step));
  packer.push(task(1, Op::evaluate));
  packer.remove(1);
  EXPECT_EQ(packer.size(), 1U);
  EXPECT_EQ(samples(packer.next(8)), std::vector<std::uint64_t>{0});
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
    for (const BoundTask& bound : group) {
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
  packer.push(task(99, Op::segment, 7));
  for (std::uint64_t sample = 0; sample < 3; ++sample) {
    packer.push(task(sample, Op::evaluate));
  }
  // However many evaluations come after it, the oldest goes next.
  EXPECT_EQ(samples(packer.next(2)), std::vector<std::uint64_t>{99});
}

}  // namespace
}  // namespace troupe::samplers
