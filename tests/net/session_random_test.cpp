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

/// Closes connections and makes new ones. The two sides notice at different
/// times. Returns whether a side may lose the other because of the closed
/// connections.
bool close_connections(SessionPair& pair) {
  std::mt19937_64& random = pair.random();
  const bool is_short = random() % 4 != 0;
  const Lane lanes[] = {Lane::control, Lane::values, Lane::beats};
  for (const int end : {0, 1}) {
    for (const Lane lane : lanes) {
      pair.set_lane(end, lane, false);
    }
    pair.run(pair.now + std::chrono::microseconds(random() % 2000));
  }
  pair.run(pair.now + (is_short
                           ? std::chrono::milliseconds(random() % 20)
                           : std::chrono::milliseconds(20 + random() % 80)));
  for (const int end : {0, 1}) {
    pair.set_lane(end, lanes[random() % 3], true);
    pair.run(pair.now + std::chrono::microseconds(random() % 2000));
  }
  pair.set_lanes(true);
  return !is_short;
}

/// Records at random times in both directions, and then rest.
void run_schedule(std::uint64_t seed, int& lost, int& whole, int& closed) {
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
  const bool has_closings = random() % 2 == 0;
  if (has_closings) {
    pair.run(pair.now + std::chrono::milliseconds(random() % 300));
    pair.set_lanes(true);
  }
  bool may_close = false;
  const std::size_t num_records = random() % 40;
  for (std::size_t i = 0; i < num_records; ++i) {
    const int end = static_cast<int>(random() % 2);
    pair.send(end, make_record(end, pair.ends[end].sent.size(), random));
    if (random() % 3 == 0) {
      pair.run(pair.now + std::chrono::microseconds(random() % 200'000));
    }
    if (has_closings && random() % 20 == 0) {
      may_close |= close_connections(pair);
    }
  }
  pair.run(std::max(start + 9s, pair.now + 3s));
  expect_prefix(pair.ends[0], pair.ends[1]);
  expect_prefix(pair.ends[1], pair.ends[0]);
  const bool is_lost = pair.ends[0].ended || pair.ends[1].ended;
  if (is_lost) {
    EXPECT_TRUE(pair.ends[0].ended) << "one side knows that it is over";
    EXPECT_TRUE(pair.ends[1].ended || !pair.ends[1].up);
    EXPECT_TRUE(may_lose || faults.lost > 0.1 || faults.cuts.size() > 0 ||
                may_close)
        << pair.ends[0].ended->loss->what;
    for (const SessionEnd& end : pair.ends) {
      const bool is_closed =
          end.ended && end.ended->loss->cause == LossCause::closed;
      EXPECT_TRUE(!is_closed || may_close) << end.ended->loss->what;
      closed += is_closed ? 1 : 0;
    }
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
  int closed = 0;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    run_schedule(seed, lost, whole, closed);
    if (testing::Test::HasFailure()) {
      FAIL() << "seed " << seed;
    }
  }
  EXPECT_GT(lost, static_cast<int>(kSchedules) / 20);
  EXPECT_GT(whole, static_cast<int>(kSchedules) / 2);
  EXPECT_GT(closed, static_cast<int>(kSchedules) / 100);
}

}  // namespace
}  // namespace troupe::net
