// Of whom a process asks which chunk of a model.

#include "actors/remote/chunk_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/session.h"

namespace troupe::actors {
namespace {

using Questions = std::vector<ChunkPlan::Question>;
using std::chrono::seconds;

constexpr std::size_t kNumChunks = 40;

std::vector<bool> all_chunks() { return std::vector<bool>(kNumChunks, true); }
std::vector<bool> no_chunks() { return std::vector<bool>(kNumChunks); }

std::size_t chunks_for(int process, const Questions& asked) {
  return static_cast<std::size_t>(std::ranges::count_if(
      asked,
      [&](const auto& one) { return one.process == process && one.chunk; }));
}

class PlanOfChunks : public testing::Test {
 protected:
  /// They say that they have all chunks.
  void begin(const std::vector<int>& givers) {
    plan_.set_givers(givers, now_);
    for (const auto& question : plan_.next(now_)) {
      if (question.chunk) {
        plan_.came(question);
      } else {
        plan_.holds(question.process, all_chunks(), now_);
      }
    }
  }

  TimePoint now_{};
  ChunkPlan plan_{no_chunks(), 3};
};

TEST_F(PlanOfChunks, AsksTheFirstProcessWhereNobodyElseIs) {
  std::set<std::size_t> seen;
  while (!plan_.is_done()) {
    const Questions asked = plan_.next(now_);
    ASSERT_FALSE(asked.empty());
    EXPECT_LE(asked.size(), 4U);
    EXPECT_TRUE(plan_.next(now_).empty()) << "those are under way";
    for (const auto& question : asked) {
      EXPECT_EQ(question.process, kHomeProcess);
      EXPECT_TRUE(seen.insert(question.chunk.value()).second);
      plan_.came(question);
    }
  }
  EXPECT_EQ(seen.size(), kNumChunks);
}

TEST_F(PlanOfChunks, AsksForNothingThatIsThere) {
  std::vector<bool> there = all_chunks();
  there[7] = false;
  ChunkPlan plan(there, 1);
  const Questions asked = plan.next(now_);
  EXPECT_EQ(asked, (Questions{{kHomeProcess, 7}}));
  plan.came(asked.front());
  EXPECT_TRUE(plan.is_done());
  EXPECT_TRUE(ChunkPlan(all_chunks(), 1).is_done());
  EXPECT_TRUE(ChunkPlan({}, 1).is_done());
}

TEST_F(PlanOfChunks, WaitsTwoSecondsForWhatGiversSay) {
  plan_.set_givers({5, 6}, now_);
  EXPECT_EQ(plan_.next(now_), (Questions{{5, {}}, {6, {}}}));
  plan_.came_not({5, {}}, now_);
  now_ += std::chrono::milliseconds(1900);
  EXPECT_TRUE(plan_.next(now_).empty());
  now_ += std::chrono::milliseconds(100);
  EXPECT_EQ(chunks_for(kHomeProcess, plan_.next(now_)), 4U);
  plan_.set_givers({5, 6, 7}, now_);
  EXPECT_EQ(plan_.next(now_), (Questions{{7, {}}}));
  plan_.came_not({6, {}}, now_);
  EXPECT_TRUE(plan_.next(now_).empty()) << "four are under way";
}

TEST_F(PlanOfChunks, SparesTheFirstProcessWhereGiversHaveAll) {
  begin({5, 6});
  const Questions asked = plan_.next(now_);
  EXPECT_EQ(chunks_for(5, asked), 4U);
  EXPECT_EQ(chunks_for(6, asked), 4U);
  EXPECT_EQ(chunks_for(kHomeProcess, asked), 1U)
      << "a slow giver must not be slower than none";
}

TEST_F(PlanOfChunks, AsksAGiverForWhatItHas) {
  plan_.set_givers({5}, now_);
  (void)plan_.next(now_);
  std::vector<bool> some = no_chunks();
  some[2] = some[39] = true;
  plan_.holds(5, some, now_);
  std::set<std::size_t> chunks;
  const Questions questions = plan_.next(now_);
  EXPECT_EQ(chunks_for(kHomeProcess, questions), 4U);
  for (const auto& question : questions) {
    if (question.process == 5) {
      chunks.insert(question.chunk.value());
    } else {
      EXPECT_FALSE(some[question.chunk.value()]) << "a giver has it";
    }
  }
  EXPECT_EQ(chunks, (std::set<std::size_t>{2, 39}));
  EXPECT_TRUE(plan_.next(now_ + std::chrono::milliseconds(900)).empty());
  EXPECT_EQ(plan_.next(now_ + seconds(1)), (Questions{{5, {}}}))
      << "it may have more by now";
  plan_.holds(5, all_chunks(), now_ + seconds(1));
  const Questions asked = plan_.next(now_ + seconds(60));
  EXPECT_EQ(chunks_for(5, asked), 2U);
  EXPECT_EQ(asked.size(), 2U) << "it has all";
}

TEST_F(PlanOfChunks, TakesWhatAGiverLacksFromTheFirstProcess) {
  begin({5});
  const Questions asked = plan_.next(now_);
  std::set<std::size_t> lost;
  for (const auto& question : asked) {
    if (question.process == 5) {
      lost.insert(question.chunk.value());
      plan_.came_not(question, now_);
    } else {
      plan_.came(question);
    }
  }
  ASSERT_EQ(lost.size(), 4U);
  const Questions next = plan_.next(now_);
  ASSERT_EQ(next.size(), 4U);
  for (const auto& question : next) {
    EXPECT_EQ(question.process, kHomeProcess);
    EXPECT_TRUE(lost.contains(question.chunk.value())) << "at once";
  }
  EXPECT_TRUE(plan_.next(now_ + seconds(9)).empty()) << "it rests";
  EXPECT_EQ(plan_.next(now_ + seconds(10)), (Questions{{5, {}}}));
}

TEST_F(PlanOfChunks, AsksTheFirstProcessInTheEndForWhatIsSlow) {
  std::vector<bool> there = all_chunks();
  there[4] = there[5] = false;
  ChunkPlan plan(there, 3);
  plan.set_givers({6}, now_);
  (void)plan.next(now_);
  plan.holds(6, all_chunks(), now_);
  const Questions slow = plan.next(now_);
  EXPECT_EQ(chunks_for(6, slow), 2U);
  EXPECT_TRUE(plan.next(now_ + std::chrono::milliseconds(1900)).empty());
  const Questions first = plan.next(now_ + seconds(2));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first.front().process, kHomeProcess);
  plan.came(first.front());
  const Questions second = plan.next(now_ + seconds(2));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_NE(second.front().chunk, first.front().chunk);
  EXPECT_FALSE(plan.is_done());
  for (const auto& question : slow) {
    plan.came_not(question, now_ + seconds(3));
  }
  EXPECT_TRUE(plan.next(now_ + seconds(3)).empty()) << "one is under way";
  plan.came(second.front());
  EXPECT_TRUE(plan.is_done());
  plan.came(slow.front());  // late
  EXPECT_TRUE(plan.is_done());
}

TEST_F(PlanOfChunks, AsksNoMoreOfWhoGivesWhatCannotBeRight) {
  begin({5});
  const Questions asked = plan_.next(now_);
  for (const auto& question : asked) {
    if (question.process == 5) {
      EXPECT_EQ(plan_.came_wrong(question), question == asked.front());
    }
  }
  for (int hour = 0; hour < 3; ++hour) {
    now_ += std::chrono::hours(1);
    plan_.set_givers({5}, now_);
    for (const auto& question : plan_.next(now_)) {
      EXPECT_EQ(question.process, kHomeProcess);
    }
  }
  plan_.set_givers({5, 6}, now_);
  const Questions first = plan_.next(now_);
  ASSERT_TRUE(std::ranges::count(first, Questions::value_type{6, {}}) == 1);
  plan_.holds(6, {true, false}, now_);  // another number of chunks
  plan_.set_givers({5, 6}, now_);
  for (const auto& question : plan_.next(now_ + seconds(60))) {
    EXPECT_EQ(question.process, kHomeProcess);
  }
}

TEST_F(PlanOfChunks, ForgetsAGiverThatHasGone) {
  begin({5});
  const Questions asked = plan_.next(now_);
  plan_.set_givers({}, now_);
  for (const auto& question : asked) {  // they come nevertheless, or do not
    if (question.chunk.value() % 2 == 0) {
      plan_.came(question);
    } else if (question.process == 5) {
      plan_.came_not(question, now_);
    }
  }
  const Questions next = plan_.next(now_);
  EXPECT_EQ(chunks_for(kHomeProcess, next), next.size());
  EXPECT_GE(next.size(), 3U);
}

TEST_F(PlanOfChunks, AsksSomeOfManyAndOthersThanOthersDo) {
  std::vector<int> many;
  for (int process = 1; process <= 60; ++process) {
    many.push_back(process);
  }
  std::map<int, int> asked_by;
  for (int own = 61; own <= 120; ++own) {
    ChunkPlan plan(no_chunks(), own);
    plan.set_givers(many, now_);
    int givers = 0;
    for (const auto& question : plan.next(now_)) {
      if (question.process != kHomeProcess) {
        ++givers;
        ++asked_by[question.process];
      }
    }
    EXPECT_EQ(givers, 8);
  }
  EXPECT_GE(asked_by.size(), 55U);
  for (const auto& [process, count] : asked_by) {
    EXPECT_LE(count, 24) << "three times its share: " << process;
  }
}

constexpr std::size_t kManyChunks = 400;

/// Processes that begin together, and the first process, which answers one
/// question of each in a round. Givers answer all that they are asked.
std::size_t given_by_first_process(int num_processes, bool share) {
  std::map<int, ChunkPlan> plans;
  std::vector<int> givers;
  for (int process = 1; process <= num_processes; ++process) {
    plans.emplace(process, ChunkPlan(std::vector<bool>(kManyChunks), process));
    givers.push_back(process);
  }
  TimePoint now{};
  std::map<int, Questions> waiting;  // for the first process
  std::size_t given = 0;
  bool is_done = false;
  for (int round = 0; !is_done; ++round) {
    EXPECT_LT(round, 10000);
    now += seconds(1);
    is_done = true;
    for (auto& [process, plan] : plans) {
      std::vector<int> others;
      std::ranges::copy_if(givers, std::back_inserter(others),
                           [own = process](int giver) { return giver != own; });
      plan.set_givers(share ? others : std::vector<int>{}, now);
      for (const auto& question : plan.next(now)) {
        if (question.process == kHomeProcess) {
          waiting[process].push_back(question);
        } else if (question.chunk) {
          EXPECT_TRUE(plans.at(question.process).is_there(*question.chunk));
          plan.came(question);
        } else {
          std::vector<bool> has = std::vector<bool>(kManyChunks);
          for (std::size_t i = 0; i < kManyChunks; ++i) {
            has[i] = plans.at(question.process).is_there(i);
          }
          plan.holds(question.process, has, now);
        }
      }
      Questions& mine = waiting[process];
      if (!mine.empty()) {
        plan.came(mine.front());
        mine.erase(mine.begin());
        ++given;
      }
      is_done = is_done && plan.is_done();
    }
  }
  return given;
}

TEST(PlansOfChunks, TakeMostChunksOnceFromTheFirstProcess) {
  for (const int num_processes : {2, 4, 8}) {
    const auto alone = static_cast<std::size_t>(num_processes) * kManyChunks;
    EXPECT_EQ(given_by_first_process(num_processes, false), alone);
    EXPECT_LE(given_by_first_process(num_processes, true),
              kManyChunks + 25 * static_cast<std::size_t>(num_processes))
        << num_processes;
  }
}

}  // namespace
}  // namespace troupe::actors
