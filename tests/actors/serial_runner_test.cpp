#include "actors/serial_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace troupe::actors {
namespace {

TEST(SerialRunner, RunsJobsInOrder) {
  SerialRunner runner(4);
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) {
    runner.post([&seen, i] { seen.push_back(i); });
  }
  runner.flush();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(SerialRunner, RunsWhatWaitsBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    SerialRunner runner(8);
    for (int i = 0; i < 8; ++i) {
      runner.post([&ran] { ++ran; });
    }
  }
  EXPECT_EQ(ran, 8);
}

TEST(SerialRunner, MakesThePosterWaitWhenTheQueueIsFull) {
  SerialRunner runner(1);
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::promise<void> begun;
  runner.post([open, &begun] {
    begun.set_value();
    open.wait();
  });
  begun.get_future().wait();
  runner.post([] {});  // fills the queue
  std::atomic<bool> posted{false};
  std::thread poster([&] {
    runner.post([] {});
    posted = true;
  });
  EXPECT_FALSE(posted);
  gate.set_value();
  poster.join();
  EXPECT_TRUE(posted);
}

TEST(SerialRunner, ReportsTheErrorOfAJobAndDropsTheRest) {
  SerialRunner runner(8);
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> ran{0};
  runner.post([open] {
    open.wait();
    throw Error(Errc::io, "disk", "is full");
  });
  runner.post([&ran] { ++ran; });
  gate.set_value();
  try {
    runner.flush();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::io);
    EXPECT_STREQ(error.what(), "[disk] is full");
  }
  EXPECT_THROW(runner.post([] {}), Error);
  EXPECT_EQ(ran, 0);
}

TEST(SerialRunner, TurnsForeignExceptionsIntoErrors) {
  SerialRunner runner(1);
  runner.post([] { throw std::runtime_error("odd"); });
  EXPECT_THROW(runner.flush(), Error);
}

}  // namespace
}  // namespace troupe::actors
