#include "actors/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace troupe::actors {
namespace {

TEST(Store, RunsJobsInOrder) {
  Store store(4);
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) {
    store.post([&seen, i] { seen.push_back(i); });
  }
  store.flush();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(Store, RunsWhatWaitsBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    Store store(8);
    for (int i = 0; i < 8; ++i) {
      store.post([&ran] { ++ran; });
    }
  }
  EXPECT_EQ(ran, 8);
}

TEST(Store, MakesThePosterWaitWhenTheQueueIsFull) {
  Store store(1);
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::promise<void> begun;
  store.post([open, &begun] {
    begun.set_value();
    open.wait();
  });
  begun.get_future().wait();
  store.post([] {});  // fills the queue
  std::atomic<bool> posted{false};
  std::thread poster([&] {
    store.post([] {});
    posted = true;
  });
  EXPECT_FALSE(posted);
  gate.set_value();
  poster.join();
  EXPECT_TRUE(posted);
}

TEST(Store, ReportsTheErrorOfAJobAndDropsTheRest) {
  Store store(8);
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> ran{0};
  store.post([open] {
    open.wait();
    throw Error(Errc::io, "disk", "is full");
  });
  store.post([&ran] { ++ran; });
  gate.set_value();
  try {
    store.flush();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::io);
    EXPECT_STREQ(error.what(), "[disk] is full");
  }
  EXPECT_THROW(store.post([] {}), Error);
  EXPECT_EQ(ran, 0);
}

TEST(Store, TurnsForeignExceptionsIntoErrors) {
  Store store(1);
  store.post([] { throw std::runtime_error("odd"); });
  EXPECT_THROW(store.flush(), Error);
}

}  // namespace
}  // namespace troupe::actors
