#include "kernels/core/executor.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "kernels/core/clock.h"
#include "kernels/core/error.h"
#include "kernels/core/pool.h"
#include "kernels/core/shard_context.h"
#include "limited_threads.h"

namespace troupe {
namespace {

TEST(ThreadExecutor, RunsJobsOneAtATimeInTheOrderOfPosting) {
  std::vector<int> order;
  std::promise<void> done;
  ThreadExecutor executor;
  for (int i = 0; i < 1000; ++i) {
    executor.post([&order, i] { order.push_back(i); });
  }
  executor.post([&done] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

/// Ends the process: 0 if `start` is refused as it should be.
template <typename Start>
[[noreturn]] void expect_refusal(::rlim_t limit, const Start& start) {
  if (!limit_threads(limit)) {
    ::_exit(2);
  }
  try {
    start();
  } catch (const Error& error) {
    ::_exit(error.code() == Errc::invalid_argument &&
                    error.place() == "threads" && !error.hint().empty()
                ? 0
                : 1);
  }
  ::_exit(3);
}

TEST(ThreadLimitDeathTest, IsAnErrorOfTheArgumentsAndLeavesNoThreadBehind) {
  if (!threads_can_be_limited()) {
    GTEST_SKIP() << "this system starts threads without limit";
  }
  for (const ::rlim_t limit : {0, 1, 3}) {
    EXPECT_EXIT(expect_refusal(limit, [] { check_threads(8); }),
                testing::ExitedWithCode(0), "");
    EXPECT_EXIT(expect_refusal(limit, [] { const ThreadPool pool(8); }),
                testing::ExitedWithCode(0), "");
  }
  EXPECT_EXIT(expect_refusal(0, [] { const ThreadExecutor executor; }),
              testing::ExitedWithCode(0), "");
}

TEST(ThreadLimit, IsNotMetByOrdinaryNumbers) { check_threads(8); }

TEST(ThreadExecutor, TakesJobsFromManyThreadsAndFromItsOwn) {
  int count = 0;
  std::promise<void> done;
  ThreadExecutor executor;
  std::vector<std::thread> posters;
  for (int poster = 0; poster < 4; ++poster) {
    posters.emplace_back([&] {
      for (int i = 0; i < 250; ++i) {
        executor.post([&] {
          executor.post([&] {
            if (++count == 1000) {
              done.set_value();
            }
          });
        });
      }
    });
  }
  for (std::thread& poster : posters) {
    poster.join();
  }
  done.get_future().wait();
  EXPECT_EQ(count, 1000);
}

TEST(ThreadExecutor, UsesOneOpenMpThread) {
  std::promise<int> threads;
  ThreadExecutor executor;
  executor.post([&] { threads.set_value(omp_get_max_threads()); });
  EXPECT_EQ(threads.get_future().get(), 1);
}

TEST(ThreadExecutor, DestructorWaitsForTheRunningJob) {
  bool has_ended = false;
  {
    std::promise<void> begun;
    ThreadExecutor executor;
    executor.post([&] {
      begun.set_value();
      for (int i = 0; i < 100; ++i) {
        std::this_thread::yield();
      }
      has_ended = true;
    });
    begun.get_future().wait();
  }
  EXPECT_TRUE(has_ended);
}

// Each job posts the next: unless the destructor drops jobs, it never returns.
TEST(ThreadExecutor, DestructorDropsJobsThatHaveNotBegun) {
  std::promise<void> begun;
  std::int64_t count = 0;
  std::function<void()> job;
  {
    ThreadExecutor executor;
    job = [&] {
      if (count++ == 0) {
        begun.set_value();
      }
      executor.post(job);
    };
    executor.post(job);
    begun.get_future().wait();
  }
  EXPECT_GE(count, 1);
}

TEST(ThreadExecutor, RunsWaitingJobsInOrderBehindThoseThatNeedNotWait) {
  std::vector<int> order;
  std::atomic<bool> is_open{false};
  std::promise<void> done;
  {
    ThreadExecutor executor;
    executor.post([&] {
      for (const int i : {1, 2}) {
        executor.post_when([&] { return is_open.load(); },
                           [&, i] { order.push_back(i); });
      }
      // Never asked before the two: it waits its turn.
      executor.post_when([] { return true; }, [&] { done.set_value(); });
      executor.post([&] {
        order.push_back(0);
        is_open = true;
      });
    });
    done.get_future().wait();
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(ThreadExecutor, DropsAJobWhoseConditionNeverHolds) {
  std::promise<void> asked;
  int times = 0;
  bool has_run = false;
  {
    ThreadExecutor executor;
    executor.post_when(
        [&] {
          if (times++ == 0) {
            asked.set_value();
          }
          return false;
        },
        [&] { has_run = true; });
    asked.get_future().wait();
  }
  EXPECT_FALSE(has_run);
}

TEST(ManualExecutor, AsksBeforeItRunsAJobThatWaits) {
  ManualExecutor executor;
  bool is_open = false;
  std::vector<int> order;
  executor.post_when([&] { return is_open; }, [&] { order.push_back(1); });
  executor.post([&] { order.push_back(0); });
  EXPECT_EQ(executor.pending(), 2U);
  executor.run_all();
  EXPECT_EQ(order, std::vector<int>{0});
  EXPECT_FALSE(executor.run_one());
  is_open = true;
  EXPECT_TRUE(executor.run_one());
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
  EXPECT_EQ(executor.pending(), 0U);
}

TEST(ManualExecutor, RunsNothingByItself) {
  ManualExecutor executor;
  int count = 0;
  executor.post([&] { ++count; });
  executor.post([&] { ++count; });
  EXPECT_EQ(count, 0);
  EXPECT_EQ(executor.pending(), 2U);
  EXPECT_TRUE(executor.run_one());
  EXPECT_EQ(count, 1);
  executor.run_all();
  EXPECT_EQ(count, 2);
  EXPECT_FALSE(executor.run_one());
}

TEST(ManualExecutor, RunAllRunsWhatJobsPost) {
  ManualExecutor executor;
  int left = 5;
  ManualExecutor::Job job = [&] {
    if (--left > 0) {
      executor.post(job);
    }
  };
  executor.post(job);
  executor.run_all();
  EXPECT_EQ(left, 0);
}

TEST(ManualClock, StandsStillUntilTold) {
  ManualClock clock;
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(std::chrono::milliseconds(5));
  EXPECT_EQ(clock.now() - start, std::chrono::milliseconds(5));
}

TEST(SteadyClock, NeverGoesBack) {
  const SteadyClock clock;
  const TimePoint before = clock.now();
  EXPECT_GE(clock.now(), before);
}

TEST(ShardContext, DefaultIsTheWholeWithoutExchange) {
  ShardContext shard;
  EXPECT_EQ(shard.rank(), 0);
  EXPECT_EQ(shard.world_size(), 1);
  EXPECT_EQ(shard.own(77).begin, 0);
  EXPECT_EQ(shard.own(77).end, 77);
  EXPECT_EQ(shard.share({2, 3}, DType::bf16, {}).shape(), (Shape{2, 3}));
  shard.meet();
}

}  // namespace
}  // namespace troupe
