#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "net/link_session.h"
#include "tests/net/session_pair.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

TEST(Session, GreetsBothWays) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  ASSERT_TRUE(pair.ends[0].up);
  ASSERT_TRUE(pair.ends[1].up);
  EXPECT_EQ(pair.ends[0].session->id(), pair.ends[1].session->id());
  EXPECT_NE(pair.ends[0].session->id().listener, 0U);
}

TEST(Session, DeliversLargeAndSmallRecordsInOrder) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  for (const std::size_t size : {1U, 300'000U, 2U, 600'000U}) {
    ASSERT_TRUE(pair.send(0, std::string(size, 'x')));
  }
  pair.run(pair.now + 20ms);
  EXPECT_EQ(pair.ends[1].got, pair.ends[0].sent);
  EXPECT_EQ(pair.ends[0].room, SessionPair::kRoom);
}

TEST(Session, HasNoRoomUntilThePeerHasReceived) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  int sent = 0;
  while (pair.send(0, std::string(100'000, 'x'))) {
    ++sent;
  }
  EXPECT_EQ(sent, 10);
  pair.run(pair.now + 20ms);
  EXPECT_TRUE(pair.send(0, std::string(100'000, 'x')));
}

TEST(Session, SaysAtTheDeadlineThatNobodyAnswers) {
  SessionPair pair(1, {.lost = 1});
  pair.run(pair.now + 4999ms);
  EXPECT_FALSE(pair.ends[0].ended);
  pair.run(pair.now + 2ms);
  ASSERT_TRUE(pair.ends[0].ended);
  EXPECT_EQ(pair.ends[0].ended->loss->cause, LossCause::unreachable);
  EXPECT_EQ(pair.ends[0].ended->loss->what,
            "the listener did not answer the greeting within 5000 ms");
}

TEST(Session, SaysWhatItsConnectionMetLast) {
  SessionPair pair(1, {.lost = 1});
  pair.event(0, ConnectionTrouble{"takes no connection", false});
  pair.event(0, ConnectionTrouble{"says nothing", false});
  pair.run(pair.now + 6s);
  ASSERT_TRUE(pair.ends[0].ended);
  EXPECT_EQ(pair.ends[0].ended->loss->what,
            "the listener did not answer the greeting within 5000 ms: it says "
            "nothing");
}

TEST(Session, ForgetsWhatItsConnectionMetBeforeItWasMade) {
  SessionPair pair(1, {.lost = 1});
  pair.event(0, ConnectionTrouble{"takes no connection", false});
  pair.event(0, LaneOpened{Lane::control});
  pair.run(pair.now + 6s);
  ASSERT_TRUE(pair.ends[0].ended);
  EXPECT_EQ(pair.ends[0].ended->loss->what,
            "the listener did not answer the greeting within 5000 ms");
}

TEST(Session, RefusesWhoIsNotAnsweredInTime) {
  SessionPair pair(1, {});
  pair.accepts = false;
  pair.run(pair.now + 6s);
  ASSERT_TRUE(pair.ends[1].ended);
  EXPECT_EQ(pair.ends[1].ended->loss->cause, LossCause::unreachable);
  ASSERT_TRUE(pair.ends[0].ended);
}

TEST(Session, CarriesTheSentenceOfARefusal) {
  SessionPair pair(1, {});
  pair.accepts = false;
  pair.run(pair.now + 10ms);
  ASSERT_TRUE(pair.ends[1].greeted);
  pair.event(1, Leave{"the job has other weights\n"});
  EXPECT_FALSE(pair.ends[1].ended->loss);
  pair.run(pair.now + 10ms);
  ASSERT_TRUE(pair.ends[0].ended);
  EXPECT_EQ(pair.ends[0].ended->loss->cause, LossCause::refused);
  EXPECT_EQ(pair.ends[0].ended->loss->what,
            "the listener refused: the job has other weights ");
}

TEST(Session, NamesBothVersions) {
  SessionPair pair(1, {.lost = 1});
  pair.event(0, OtherVersion{7, "go away"});
  ASSERT_TRUE(pair.ends[0].ended);
  EXPECT_EQ(pair.ends[0].ended->loss->cause, LossCause::version);
  EXPECT_EQ(pair.ends[0].ended->loss->what,
            "the listener speaks version 7 of the link protocol, this side "
            "version 2; it says: go away");
}

TEST(Session, SaysGoodBye) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  pair.event(1, Leave{"the job is done"});
  pair.run(pair.now + 10ms);
  ASSERT_TRUE(pair.ends[0].ended);
  EXPECT_EQ(pair.ends[0].ended->loss->cause, LossCause::left);
  EXPECT_EQ(pair.ends[0].ended->loss->what,
            "the listener left: the job is done");
}

TEST(Session, LosesASilentPeerAfterItsLease) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.cuts = {{start + 1s, start + 1h}}});
  pair.run(start + 2900ms);
  EXPECT_FALSE(pair.ends[0].ended);
  EXPECT_FALSE(pair.ends[1].ended);
  pair.run(start + 3010ms);
  for (const SessionEnd& end : pair.ends) {
    ASSERT_TRUE(end.ended);
    EXPECT_EQ(end.ended->loss->cause, LossCause::silent);
  }
}

TEST(Session, GoesOnAfterAShortCut) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.cuts = {{start + 1s, start + 2800ms}}});
  pair.run(start + 1500ms);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.send(0, "record " + std::to_string(i)));
    ASSERT_TRUE(pair.send(1, "answer " + std::to_string(i)));
  }
  pair.run(start + 3500ms);
  EXPECT_EQ(pair.ends[1].got, pair.ends[0].sent);
  EXPECT_EQ(pair.ends[0].got, pair.ends[1].sent);
}

TEST(Session, RepeatsOnceWhatOneCutHasTaken) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1,
                   {.least = 20ms, .cuts = {{start + 500ms, start + 510ms}}});
  pair.run(start + 490ms);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(pair.send(0, "record " + std::to_string(i)));
    pair.run(pair.now + 1ms);
  }
  pair.run(pair.now + 1s);
  EXPECT_EQ(pair.ends[1].got, pair.ends[0].sent);
  // Those that were lost, and those sent until the sender knew: 40 ms of them,
  // and again what went out beside the repetition.
  EXPECT_LE(pair.wire().num_sent(FrameKind::record), 200 + 60);
}

TEST(Session, IsNotKeptAliveByOldBeats) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.cuts = {{start + 1s, start + 1h}}});
  pair.run(start + 999ms);
  // A frame of the past arrives again and again.
  const FrameHead old{
      .kind = FrameKind::beat, .session = pair.ends[0].session->id(), .a = 1};
  LinkSession& session = *pair.ends[1].session;
  bool ended = false;
  for (TimePoint now = start + 1s; now < start + 3500ms && !ended;
       now += 50ms) {
    for (const SessionEvent& event :
         {SessionEvent(FrameArrived{old, {}}), SessionEvent(Woken{})}) {
      for (const SessionCommand& command : session.on(event, now)) {
        ended |= std::holds_alternative<Ended>(command);
      }
    }
  }
  EXPECT_TRUE(ended);
}

TEST(Session, EndsWhenTheControlLaneAloneIsDead) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.dead_lane = Lane::control, .dead_from = start + 1s});
  pair.run(start + 10'400ms);
  EXPECT_FALSE(pair.ends[0].ended);
  pair.run(start + 11'100ms);
  for (const SessionEnd& end : pair.ends) {
    ASSERT_TRUE(end.ended);
    EXPECT_EQ(end.ended->loss->cause, LossCause::silent);
  }
  EXPECT_EQ(
      pair.ends[0].ended->loss->what,
      "nothing was heard of the listener on its control lane for 10000 ms");
}

TEST(Session, WaitsForTheFirstBeatWhileTheControlLaneLives) {
  const TimePoint start{std::chrono::hours(1)};
  SessionPair pair(1, {.dead_lane = Lane::beats});
  pair.run(start + 9900ms);
  EXPECT_FALSE(pair.ends[0].ended);
  EXPECT_FALSE(pair.ends[1].ended);
  pair.run(start + 10'100ms);
  ASSERT_TRUE(pair.ends[0].ended);
  ASSERT_TRUE(pair.ends[1].ended);
  EXPECT_TRUE(pair.ends[0].ended->loss->cause == LossCause::silent ||
              pair.ends[1].ended->loss->cause == LossCause::silent)
      << "one side saw the silence; the other got its message";
}

TEST(Session, IsForgottenByAPeerThatLostIt) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  pair.ends[1].ended = Ended{};  // as if its process had restarted
  pair.run(pair.now + 600ms);
  ASSERT_TRUE(pair.ends[0].ended);
  EXPECT_EQ(pair.ends[0].ended->loss->cause, LossCause::forgotten);
}

TEST(Session, GivesThePeerAMomentAfterThisProcessWasStopped) {
  SessionPair pair(1, {});
  pair.run(pair.now + 1s);
  LinkSession& session = *pair.ends[0].session;
  // Five seconds without an event; the deadline comes before the waiting beats.
  const TimePoint later = pair.now + 5s;
  for (const SessionCommand& command : session.on(Woken{}, later)) {
    EXPECT_FALSE(std::holds_alternative<Ended>(command));
  }
  bool ended = false;
  for (const SessionCommand& command : session.on(Woken{}, later + 999ms)) {
    ended |= std::holds_alternative<Ended>(command);
  }
  EXPECT_FALSE(ended);
  for (const SessionCommand& command : session.on(Woken{}, later + 1s)) {
    ended |= std::holds_alternative<Ended>(command);
  }
  EXPECT_TRUE(ended);
}

TEST(Session, BeatsMeasureTheRoundTrip) {
  SessionPair pair(1, {.least = 3ms});
  pair.run(pair.now + 500ms);
  ASSERT_FALSE(pair.ends[0].round_trips.empty());
  for (const RoundTrip& round_trip : pair.ends[0].round_trips) {
    EXPECT_EQ(round_trip.taken, 6ms);
  }
}

TEST(Session, BeatsTellHowFarThePeersClockIsAhead) {
  for (const Duration ahead :
       {Duration(0ms), Duration(90min), Duration(-59min)}) {
    // Ways take 50 us to 10 ms, so one may be longer than the other.
    SessionPair pair(1, {.spread = 10ms});
    pair.ahead = ahead;
    pair.run(pair.now + 3s);
    for (const int end : {0, 1}) {
      const Duration truth = end == 0 ? ahead : -ahead;
      EXPECT_GE(pair.ends[end].round_trips.size(), 20U);
      Duration furthest{};
      for (const RoundTrip& round_trip : pair.ends[end].round_trips) {
        const Duration off = round_trip.clock_ahead - truth;
        EXPECT_LE(std::chrono::abs(off), round_trip.taken / 2 + 1ns);
        furthest = std::max(furthest, std::chrono::abs(off));
      }
      EXPECT_LE(furthest, 5ms);
    }
  }
}

TEST(Session, AClockThatNoHostHasIsPassedOver) {
  SessionPair pair(1, {.least = 3ms});
  pair.ahead = Duration(std::int64_t{1} << 62U);
  pair.run(pair.now + 500ms);
  EXPECT_TRUE(pair.ends[0].round_trips.empty());
  EXPECT_GE(pair.ends[0].num_beats, 4);
  EXPECT_FALSE(pair.ends[1].round_trips.empty());
}

TEST(Session, BeatsAsOftenAsThePeersLeaseNeeds) {
  // The dialler's own lease is long; the listener hears of it anyway.
  SessionPair pair(1, {},
                   {.peer = {},
                    .role = "worker",
                    .random = 0,
                    .lease = 80ms,
                    .beat_interval = 5s,
                    .reconnect_grace = 30ms,
                    .greeting_deadline = 5s,
                    .room = SessionPair::kRoom});
  pair.run(pair.now + 1s);
  EXPECT_FALSE(pair.ends[0].ended);
  EXPECT_GE(pair.ends[0].num_beats, 90);
}

TEST(Session, EndsWithAPeerThatBreaksTheProtocol) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  const SessionId id = pair.ends[0].session->id();
  pair.wire().send(0, {{.kind = FrameKind::have, .session = id, .b = 99}, {}},
                   pair.now);
  pair.run(pair.now + 10ms);
  ASSERT_TRUE(pair.ends[1].ended);
  EXPECT_EQ(pair.ends[1].ended->loss->cause, LossCause::breach);
  EXPECT_TRUE(pair.ends[0].ended) << "the peer has said so";
}

TEST(Session, EndsWithAPeerWhoseRecordHasNoEnd) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  const SessionId id = pair.ends[0].session->id();
  const SharedBytes piece = share(std::string(kMostPayloadBytes, 'x'));
  for (std::uint64_t at = 1; at <= 9; ++at) {
    pair.wire().send(0,
                     {{.kind = FrameKind::record,
                       .flags = kMore,
                       .session = id,
                       .a = at,
                       .b = 1,
                       .c = 1},
                      piece},
                     pair.now);
  }
  pair.run(pair.now + 10ms);
  ASSERT_TRUE(pair.ends[1].ended);
  EXPECT_EQ(pair.ends[1].ended->loss->cause, LossCause::breach);
}

TEST(Session, IgnoresFramesOfAnotherSession) {
  SessionPair pair(1, {});
  pair.run(pair.now + 10ms);
  SessionId id = pair.ends[0].session->id();
  ++id.listener;
  pair.wire().send(
      0,
      {{.kind = FrameKind::record, .session = id, .a = 1, .b = 1, .c = 1},
       share(std::string("x"))},
      pair.now);
  pair.wire().send(0, {{.kind = FrameKind::bye, .session = id}, {}}, pair.now);
  pair.run(pair.now + 10ms);
  EXPECT_TRUE(pair.ends[1].got.empty());
  EXPECT_FALSE(pair.ends[1].ended);
}

}  // namespace
}  // namespace troupe::net
