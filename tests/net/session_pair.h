#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "net/link_session.h"
#include "tests/net/virtual_wire.h"

namespace troupe::net {

/// Record number `index` of an end, of random size; some need several pieces.
[[nodiscard]] inline std::string make_record(int end, std::size_t index,
                                             std::mt19937_64& random) {
  const std::size_t size =
      random() % 50 == 0 ? random() % 700'000 : random() % 300;
  std::string record = std::to_string(end) + ":" + std::to_string(index) + ":";
  record.resize(record.size() + size, static_cast<char>('a' + index % 26));
  return record;
}

/// One side of a link, driven as the hub drives a session. End 0 dials.
struct SessionEnd {
  std::optional<LinkSession> session;
  bool greeted = false;
  bool up = false;
  std::optional<Ended> ended;
  std::vector<std::string> sent;
  std::vector<std::string> got;
  int num_beats = 0;
  std::vector<RoundTrip> round_trips;
  std::size_t room = 0;  ///< as the shell counts it
};

/// Two sessions over a wire in virtual time. The listener's clock may be ahead
/// of the dialler's.
class SessionPair {
 public:
  static constexpr std::size_t kRoom = std::size_t{1} << 20U;

  SessionPair(std::uint64_t seed, WireFaults faults,
              SessionOptions options = {.peer = {},
                                        .role = "worker",
                                        .random = 0})
      : random_(seed), wire_(std::move(faults), random_), options_(options) {
    if (options_.lease == Duration{}) {
      options_.lease = std::chrono::seconds(2);
      options_.beat_interval = std::chrono::milliseconds(100);
      options_.reconnect_grace = std::chrono::milliseconds(30);
      options_.greeting_deadline = std::chrono::seconds(5);
      options_.room = kRoom;
    }
    ends[0].session = LinkSession::dialling(options_of(0), "hello", now);
  }

  /// Time passes; at most until `until`.
  void run(TimePoint until) {
    while (true) {
      TimePoint next = wire_.next();
      for (int end = 0; end < 2; ++end) {
        if (ends[end].session && !ends[end].ended) {
          next = std::min(next, deadline(end));
        }
      }
      if (next > until) {
        now = until;
        return;
      }
      now = std::max(now, next);
      if (wire_.next() <= now) {
        wire_.deliver(
            [&](int to, const FrameArrived& frame) { arrive(to, frame); });
      } else {
        for (int end = 0; end < 2; ++end) {
          if (ends[end].session && !ends[end].ended && deadline(end) <= now) {
            act(end, ends[end].session->on(Woken{}, clock(end)));
          }
        }
      }
    }
  }

  /// Whether there was room.
  bool send(int end, std::string record) {
    SessionEnd& from = ends[end];
    const std::size_t room = room_for(record.size());
    if (!from.up || from.ended || from.room < room) {
      return false;
    }
    from.room -= room;
    EXPECT_EQ(from.room + room, from.session->room());
    from.sent.push_back(record);
    act(end,
        from.session->on(SendRecord{share(std::move(record))}, clock(end)));
    return true;
  }

  void event(int end, const SessionEvent& it) {
    act(end, ends[end].session->on(it, clock(end)));
  }

  /// All connections are made, or closed, and both sides see it at once.
  void set_lanes(bool are_open) {
    for (int end = 0; end < 2; ++end) {
      for (const Lane lane : {Lane::control, Lane::values, Lane::beats}) {
        set_lane(end, lane, are_open);
      }
    }
  }
  /// One side sees one connection open or close.
  void set_lane(int end, Lane lane, bool is_open) {
    if (ends[end].session && !ends[end].ended) {
      event(end, is_open ? SessionEvent(LaneOpened{lane})
                         : SessionEvent(LaneClosed{lane}));
    }
  }

  SessionEnd ends[2];
  TimePoint now{std::chrono::hours(1)};
  VirtualWire& wire() { return wire_; }
  std::mt19937_64& random() { return random_; }
  bool accepts = true;
  Duration ahead{};  ///< the listener's clock; set it before anything happens

 private:
  [[nodiscard]] TimePoint clock(int end) const {
    return end == 0 ? now : now + ahead;
  }
  /// By the dialler's clock.
  [[nodiscard]] TimePoint deadline(int end) const {
    return *ends[end].session->next_deadline() - (clock(end) - now);
  }
  SessionOptions options_of(int end) {
    SessionOptions options = options_;
    options.peer = end == 0 ? "the listener" : "the dialler";
    options.random = random_() | 1U;
    return options;
  }

  void arrive(int to, const FrameArrived& frame) {
    SessionEnd& end = ends[to];
    if (!end.session && frame.head.kind == FrameKind::hello) {
      end.session = LinkSession::listening(options_of(1), clock(1));
    }
    if (end.session && !end.ended) {
      act(to, end.session->on(frame, clock(to)));
    } else if (end.ended && frame.head.kind != FrameKind::bye) {
      wire_.send(to,
                 {{.kind = FrameKind::bye,
                   .flags = kForgotten,
                   .session = frame.head.session},
                  {}},
                 now);
    }
  }

  void act(int index, std::vector<SessionCommand> commands) {
    SessionEnd& end = ends[index];
    EXPECT_TRUE(commands.empty() || !end.ended) << "a command after the end";
    for (SessionCommand& command : commands) {
      if (auto* frame = std::get_if<Transmit>(&command)) {
        wire_.send(index, *frame, now);
      } else if (std::get_if<Greeted>(&command) != nullptr) {
        EXPECT_FALSE(std::exchange(end.greeted, true));
        if (accepts) {
          act(index, end.session->on(Accept{"welcome"}, clock(index)));
        }
      } else if (std::get_if<CameUp>(&command) != nullptr) {
        EXPECT_FALSE(std::exchange(end.up, true));
        end.room = end.session->room();
      } else if (auto* record = std::get_if<DeliverRecord>(&command)) {
        end.got.push_back(std::move(record->record));
      } else if (auto* beat = std::get_if<DeliverBeat>(&command)) {
        ++end.num_beats;
        if (beat->round_trip) {
          end.round_trips.push_back(*beat->round_trip);
        }
      } else if (auto* made = std::get_if<MadeRoom>(&command)) {
        end.room += made->room;
      } else {
        end.ended = std::get<Ended>(command);
      }
    }
  }

  std::mt19937_64 random_;
  VirtualWire wire_;
  SessionOptions options_;
};

}  // namespace troupe::net
