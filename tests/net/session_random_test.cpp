#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "tests/net/session_pair.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSchedules = 500;
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSchedules = 1000;
#else
constexpr std::uint64_t kSchedules = 12'000;
#endif

/// What an end got is how what the other sent begins.
void expect_prefix(const SessionEnd& from, const SessionEnd& to) {
  ASSERT_LE(to.got.size(), from.sent.size());
  for (std::size_t i = 0; i < to.got.size(); ++i) {
    ASSERT_EQ(to.got[i], from.sent[i]);
  }
}

/// Records at random times in both directions, and then rest.
void run_schedule(std::uint64_t seed, int& lost, int& whole) {
  std::mt19937_64 random(seed);
  WireFaults faults = random_faults(random);
  const TimePoint start{std::chrono::hours(1)};
  const bool may_lose = random() % 3 == 0;
  if (random() % 2 == 0) {
    const TimePoint begin = start + std::chrono::milliseconds(random() % 3000);
    const auto length = may_lose ? 1800 + random() % 1500 : random() % 800;
    faults.cuts.emplace_back(begin, begin + std::chrono::milliseconds(length));
  }
  SessionPair pair(seed, faults);
  const std::size_t num_records = random() % 40;
  for (std::size_t i = 0; i < num_records; ++i) {
    const int end = static_cast<int>(random() % 2);
    pair.send(end, make_record(end, pair.ends[end].sent.size(), random));
    if (random() % 3 == 0) {
      pair.run(pair.now + std::chrono::microseconds(random() % 200'000));
    }
  }
  pair.run(std::max(start + 9s, pair.now + 3s));
  expect_prefix(pair.ends[0], pair.ends[1]);
  expect_prefix(pair.ends[1], pair.ends[0]);
  const bool is_lost = pair.ends[0].ended || pair.ends[1].ended;
  if (is_lost) {
    EXPECT_TRUE(pair.ends[0].ended) << "one side knows that it is over";
    EXPECT_TRUE(pair.ends[1].ended || !pair.ends[1].up);
    EXPECT_TRUE(may_lose || faults.lost > 0.1 || faults.cuts.size() > 0)
        << pair.ends[0].ended->loss->what;
    ++lost;
  } else {
    for (int end = 0; end < 2; ++end) {
      EXPECT_EQ(pair.ends[1 - end].got.size(), pair.ends[end].sent.size());
      EXPECT_EQ(pair.ends[end].session->room(), SessionPair::kRoom);
      EXPECT_EQ(pair.ends[end].room, SessionPair::kRoom);
    }
    ++whole;
  }
  // Both directions, with repetitions.
  EXPECT_LE(pair.wire().most_bytes(), 16 * SessionPair::kRoom);
}

TEST(SessionRandom, DeliversOnceAndInOrderOrLosesThePeer) {
  int lost = 0;
  int whole = 0;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    run_schedule(seed, lost, whole);
    if (testing::Test::HasFailure()) {
      FAIL() << "seed " << seed;
    }
  }
  EXPECT_GT(lost, static_cast<int>(kSchedules) / 20);
  EXPECT_GT(whole, static_cast<int>(kSchedules) / 2);
}

}  // namespace
}  // namespace troupe::net
