#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "net/link_session.h"
#include "tests/net/session_pair.h"

// What a session makes of connections that are closed.

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

/// Up for half a second, with all connections.
void connect(SessionPair& pair) {
  const TimePoint start = pair.now;
  pair.run(start + 100ms);
  pair.set_lanes(true);
  pair.run(start + 500ms);
  EXPECT_TRUE(pair.ends[0].up && pair.ends[1].up);
}

TEST(SessionClosed, LosesAPeerWhoseConnectionsAreClosedAndNotMadeAgain) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.cuts = {{start + 500ms, start + 1h}}});
  connect(pair);
  pair.set_lanes(false);
  // The round trip is 0.1 ms.
  pair.run(start + 530ms);
  EXPECT_FALSE(pair.ends[0].ended);
  EXPECT_FALSE(pair.ends[1].ended);
  pair.run(start + 531ms);
  for (const SessionEnd& end : pair.ends) {
    ASSERT_TRUE(end.ended);
    EXPECT_EQ(end.ended->loss->cause, LossCause::closed);
  }
  EXPECT_EQ(pair.ends[0].ended->loss->what,
            "all connections of the listener were closed for 30 ms");
}

TEST(SessionClosed, GivesADistantPeerTheRoundTripsOfANewConnection) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.least = 20ms, .cuts = {{start + 500ms, start + 1h}}});
  connect(pair);
  pair.set_lanes(false);
  pair.run(start + 500ms + 30ms + 6 * 40ms - 1ms);
  EXPECT_FALSE(pair.ends[0].ended);
  EXPECT_FALSE(pair.ends[1].ended);
  pair.run(pair.now + 2ms);
  EXPECT_TRUE(pair.ends[0].ended);
  EXPECT_TRUE(pair.ends[1].ended);
}

TEST(SessionClosed, KnowsTheRoundTripSoonAfterTheGreeting) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.cuts = {{start + 2ms, start + 1h}}});
  pair.run(start + 1ms);
  pair.set_lanes(true);
  pair.run(start + 2ms);
  pair.set_lanes(false);
  pair.run(start + 40ms);
  EXPECT_TRUE(pair.ends[0].ended);
  EXPECT_TRUE(pair.ends[1].ended);
}

TEST(SessionClosed, KeepsAPeerThatIsBackWithinTheGraceAndRepairsAtOnce) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.cuts = {{start + 500ms, start + 525ms}}});
  connect(pair);
  pair.set_lanes(false);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.send(0, "record " + std::to_string(i)));
    ASSERT_TRUE(pair.send(1, "answer " + std::to_string(i)));
  }
  pair.run(start + 525ms);
  pair.set_lanes(true);
  pair.run(start + 526ms);
  EXPECT_EQ(pair.ends[1].got, pair.ends[0].sent);
  EXPECT_EQ(pair.ends[0].got, pair.ends[1].sent);
  pair.run(start + 5s);
  EXPECT_FALSE(pair.ends[0].ended);
  EXPECT_FALSE(pair.ends[1].ended);
}

TEST(SessionClosed, KeepsAPeerAsLongAsOneConnectionIsThere) {
  for (const Lane left : {Lane::control, Lane::values, Lane::beats}) {
    SessionPair pair(1, {});
    connect(pair);
    for (const Lane lane : {Lane::control, Lane::values, Lane::beats}) {
      if (lane != left) {
        pair.set_lane(0, lane, false);
        pair.set_lane(1, lane, false);
      }
    }
    pair.run(pair.now + 5s);
    EXPECT_FALSE(pair.ends[0].ended);
    EXPECT_FALSE(pair.ends[1].ended);
  }
}

TEST(SessionClosed, TakesNoFrameOfAClosedConnectionForASignOfLife) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {});
  connect(pair);
  // The lanes count as closed but still deliver: frames of the peer count as
  // sent before the close.
  pair.set_lanes(false);
  pair.run(start + 540ms);
  EXPECT_TRUE(pair.ends[0].ended);
  EXPECT_TRUE(pair.ends[1].ended);
}

TEST(SessionClosed, GivesAPeerTimeToComeBackAfterThisProcessWasStopped) {
  SessionPair pair(1, {});
  connect(pair);
  LinkSession& session = *pair.ends[0].session;
  for (const Lane lane : {Lane::control, Lane::values, Lane::beats}) {
    static_cast<void>(session.on(LaneClosed{lane}, pair.now));
  }
  // The grace is over, but what has happened meanwhile was not read yet.
  const TimePoint later = pair.now + 500ms;
  for (const SessionCommand& command : session.on(Woken{}, later)) {
    EXPECT_FALSE(std::holds_alternative<Ended>(command));
  }
  static_cast<void>(session.on(LaneOpened{Lane::beats}, later));
  for (TimePoint now = later; now < later + 400ms; now += 5ms) {
    for (const SessionCommand& command : session.on(Woken{}, now)) {
      EXPECT_FALSE(std::holds_alternative<Ended>(command));
    }
  }
}

}  // namespace
}  // namespace troupe::net
