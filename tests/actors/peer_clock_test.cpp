#include "actors/remote/peer_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <random>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

/// Two clocks, and beats between them that take 50 us to 10 ms each way.
class TwoClocks {
 public:
  explicit TwoClocks(Duration ahead) : ahead_(ahead) {}

  /// A beat of ours is answered.
  void beat(Duration one_way, Duration other_way) {
    const TimePoint sent = now;
    now += one_way;
    const TimePoint theirs = their_time();
    now += other_way;
    clock.hear({.taken = now - sent,
                .clock_ahead = (theirs - sent + (theirs - now)) / 2},
               now);
  }
  void beat() {
    std::uniform_int_distribution<int> us(50, 10'000);
    beat(std::chrono::microseconds(us(random_)),
         std::chrono::microseconds(us(random_)));
  }
  /// By parts of a million.
  void drift(Duration elapsed, int parts) {
    now += elapsed;
    ahead_ += elapsed / 1'000'000 * parts;
  }
  [[nodiscard]] TimePoint their_time() const { return now + ahead_; }

  /// How far from the truth a span is drawn that ended `ago`.
  [[nodiscard]] Duration off(Duration ago) const {
    TraceSpan span;
    span.duration = 3ms;
    span.start = their_time() - ago - span.duration;
    clock.place(span, now);
    EXPECT_EQ(span.duration, 3ms);
    return span.start + span.duration - (now - ago);
  }

  PeerClock clock;
  TimePoint now{1h};

 private:
  Duration ahead_;
  std::mt19937_64 random_{1};
};

TEST(PeerClock, PlacesSpansOfAnotherHostWithinTheErrorThatItStates) {
  for (const Duration ahead : {Duration(20h), Duration(-59min)}) {
    TwoClocks hosts(ahead);
    Duration before = 1h;
    for (int beat = 0; beat < 200; ++beat) {
      hosts.beat();
      const Duration error = hosts.clock.error().value();
      EXPECT_LE(std::chrono::abs(hosts.off(20ms)), error);
      EXPECT_LE(error, before + 20us) << "all beats together tell more";
      before = error;
      hosts.now += 100ms;
    }
    EXPECT_LT(before, 1ms);
  }
}

TEST(PeerClock, FollowsAClockThatDrifts) {
  for (const int parts : {-50, 50}) {
    TwoClocks hosts(20h);
    for (int beat = 0; beat < 36'000; ++beat) {
      hosts.beat();
      hosts.drift(100ms, parts);
      EXPECT_LE(std::chrono::abs(hosts.off(20ms)),
                hosts.clock.error().value() + 10us);
    }
    EXPECT_LT(hosts.clock.error().value(), 5ms) << "after an hour";
  }
}

TEST(PeerClock, BeginsAnewWhenAClockWasSet) {
  TwoClocks hosts(20h);
  hosts.beat(50us, 50us);
  hosts.drift(1s, 500'000);
  hosts.beat(1ms, 1ms);
  EXPECT_LE(std::chrono::abs(hosts.off(0ms)), 1ms);
  EXPECT_GE(hosts.clock.error().value(), 1ms);
}

TEST(PeerClock, IsExactWithinOneHost) {
  TwoClocks host(0s);
  for (int beat = 0; beat < 20; ++beat) {
    host.beat();
    EXPECT_EQ(host.off(20ms), 0s);
  }
}

TEST(PeerClock, TakesTheTimeOfArrivalBeforeABeatHasTold) {
  const TwoClocks hosts(20h);
  EXPECT_FALSE(hosts.clock.error());
  EXPECT_EQ(hosts.off(20ms), 20ms);
}

TEST(PeerClock, PlacesNothingOutsideOfOurTime) {
  TwoClocks hosts(20h);
  hosts.beat();
  constexpr auto kMost = std::numeric_limits<Duration::rep>::max();
  constexpr auto kLeast = std::numeric_limits<Duration::rep>::min();
  for (const Duration::rep start : {kLeast, -1L, 0L, kMost}) {
    for (const Duration::rep duration : {kLeast, -1L, 0L, kMost}) {
      TraceSpan span;
      span.start = TimePoint(Duration(start));
      span.duration = Duration(duration);
      hosts.clock.place(span, hosts.now);
      EXPECT_GE(span.duration, 0s);
      EXPECT_LE(span.duration, 2h);
      EXPECT_GE(span.start + span.duration, TimePoint{});
      EXPECT_LE(span.start + span.duration, hosts.now);
    }
  }
}

}  // namespace
}  // namespace troupe::actors
