#include "kernels/core/pool.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {
namespace {

class PoolOf : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Threads, PoolOf, testing::Values(1, 2, 3, 4, 8));

TEST_P(PoolOf, RunsEveryPieceExactlyOnceInEveryRound) {
  ThreadPool pool(GetParam());
  // Plain ints: under ThreadSanitizer this also shows that a round's writes
  // are visible to the next round and to the caller.
  std::vector<int> runs(37, 0);
  for (int round = 1; round <= 2000; ++round) {
    const std::int64_t count = round % 38;
    pool.run(count, [&](std::int64_t piece, int) {
      ++runs[static_cast<std::size_t>(piece)];
    });
    for (std::int64_t i = 0; i < 37; ++i) {
      int& n = runs[static_cast<std::size_t>(i)];
      ASSERT_EQ(n, i < count ? 1 : 0) << "round " << round << " piece " << i;
      n = 0;
    }
  }
}

TEST_P(PoolOf, GivesEachPieceTheFunctionOfItsOwnRound) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> seen(5, -1);
    pool.run(5, [&, round](std::int64_t piece, int) {
      seen[static_cast<std::size_t>(piece)] = round;
    });
    ASSERT_EQ(seen, std::vector<int>(5, round));
  }
}

TEST_P(PoolOf, NumbersThreadsFromZeroAndNeverRunsOneTwiceAtOnce) {
  const int num_threads = GetParam();
  ThreadPool pool(num_threads);
  ASSERT_EQ(pool.num_threads(), num_threads);
  std::vector<std::atomic<int>> inside(static_cast<std::size_t>(num_threads));
  std::atomic<bool> is_good{true};
  pool.run(5000, [&](std::int64_t, int thread) {
    if (thread < 0 || thread >= num_threads) {
      is_good = false;
      return;
    }
    auto& count = inside[static_cast<std::size_t>(thread)];
    if (++count != 1) {
      is_good = false;
    }
    --count;
  });
  EXPECT_TRUE(is_good);
}

TEST_P(PoolOf, RethrowsAndIsUsableAfterwards) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 200; ++round) {
    const std::int64_t bad = round % 16;
    std::atomic<int> started{0};
    try {
      pool.run(16, [&](std::int64_t piece, int) {
        ++started;
        if (piece == bad) {
          throw std::runtime_error("piece " + std::to_string(piece));
        }
      });
      FAIL() << "no exception in round " << round;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "piece " + std::to_string(bad));
    }
    EXPECT_GE(started, 1);
    EXPECT_LE(started, 16);
    std::atomic<int> sum{0};
    pool.run(16,
             [&](std::int64_t piece, int) { sum += static_cast<int>(piece); });
    ASSERT_EQ(sum, 120);
  }
}

TEST_P(PoolOf, RethrowsOneWhenEveryPieceThrows) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 200; ++round) {
    EXPECT_THROW(
        pool.run(9, [](std::int64_t, int) { throw std::logic_error("no"); }),
        std::logic_error);
  }
}

TEST_P(PoolOf, GivesTheSameSumsAsALoop) {
  ThreadPool pool(GetParam());
  std::vector<double> out(1000);
  pool.run(1000, [&](std::int64_t piece, int) {
    double sum = 0.0;
    for (int i = 1; i < 50; ++i) {
      sum += 1.0 / static_cast<double>(piece + i);
    }
    out[static_cast<std::size_t>(piece)] = sum;
  });
  for (std::size_t piece = 0; piece < out.size(); ++piece) {
    double sum = 0.0;
    for (int i = 1; i < 50; ++i) {
      sum += 1.0 / static_cast<double>(piece + static_cast<std::size_t>(i));
    }
    ASSERT_EQ(out[piece], sum);
  }
}

TEST_P(PoolOf, UsesOneOpenMpThreadOnEveryThread) {
  use_one_openmp_thread();
  ThreadPool pool(GetParam());
  std::atomic<bool> is_one{true};
  pool.run(200, [&](std::int64_t, int) {
    if (omp_get_max_threads() != 1) {
      is_one = false;
    }
  });
  EXPECT_TRUE(is_one);
}

TEST(ThreadPool, DoesNothingForNoPieces) {
  ThreadPool pool(3);
  bool was_called = false;
  pool.run(0, [&](std::int64_t, int) { was_called = true; });
  pool.run(-1, [&](std::int64_t, int) { was_called = true; });
  EXPECT_FALSE(was_called);
}

TEST(ThreadPool, RefusesFewerThanOneThread) {
  for (const int num_threads : {0, -1}) {
    try {
      ThreadPool pool(num_threads);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
    }
  }
}

TEST(ThreadPool, StartsAndStopsManyTimes) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(4);
    if (i % 2 == 0) {
      std::atomic<int> count{0};
      pool.run(3, [&](std::int64_t, int) { ++count; });
      ASSERT_EQ(count, 3);
    }
  }
}

// More threads than cores, all pools at once: helpers are often not running
// when a round begins, sleep through whole rounds and wake in later ones.
TEST(ThreadPool, PoolsSharingTheCoresLoseNothing) {
  std::vector<std::thread> owners;
  std::atomic<int> wrong{0};
  for (int owner = 0; owner < 4; ++owner) {
    owners.emplace_back([&] {
      ThreadPool pool(4);
      std::vector<int> runs(11, 0);
      for (int round = 1; round <= 300; ++round) {
        pool.run(11, [&](std::int64_t piece, int) {
          ++runs[static_cast<std::size_t>(piece)];
        });
        wrong += static_cast<int>(std::count_if(
            runs.begin(), runs.end(), [round](int n) { return n != round; }));
      }
    });
  }
  for (std::thread& owner : owners) {
    owner.join();
  }
  EXPECT_EQ(wrong, 0);
}

// The round after a thread fell asleep must wake it again. Each of the two
// pieces waits for the other to begin, so one thread alone would hang here.
TEST(ThreadPool, WakesASleepingThread) {
  ThreadPool pool(2);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> begun{0};
    pool.run(2, [&](std::int64_t, int) {
      ++begun;
      while (begun != 2) {
        std::this_thread::yield();
      }
    });
    ASSERT_EQ(begun, 2);
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    while (std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace troupe
