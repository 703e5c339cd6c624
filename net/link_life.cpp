#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "net/link_session.h"

// How a session knows that its peer lives: beats, the lease, connections.

namespace troupe::net {
namespace {

/// How many leases the control lane may be silent while beats arrive.
constexpr int kControlLeases = 5;
/// Round trips until something arrives over a new connection: one for tcp, two
/// for ZeroMQ's greeting, two for CURVE, half a one for the frame.
constexpr int kReconnectRoundTrips = 6;
/// A grace is so many looks. If this process did not run for a while, that is
/// one of them, and the peer has the time of the others.
constexpr int kGraceLooks = 3;
/// A host is not on for longer (146 years, in ns).
constexpr std::uint64_t kMostStamp = std::uint64_t{1} << 62U;
/// What a new round trip counts in the smoothed one: 1/8, as in TCP (RFC 6298).
constexpr int kSmoothing = 8;

[[nodiscard]] std::uint64_t stamp_of(TimePoint now) noexcept {
  return static_cast<std::uint64_t>(
             std::chrono::nanoseconds(now.time_since_epoch()).count()) +
         1;  // 0 is none
}

/// The round trip of a beat that arrived at `now`, if the beat answers one of
/// ours. For the clocks, both directions are taken as equally long.
[[nodiscard]] std::optional<RoundTrip> round_trip_of(const FrameHead& head,
                                                     std::uint64_t now) {
  if (head.a > kMostStamp || head.b == 0 || head.b > now ||
      head.c > now - head.b) {
    return std::nullopt;
  }
  const std::chrono::nanoseconds taken(now - head.b - head.c);
  const std::chrono::nanoseconds since_sent(static_cast<std::int64_t>(now) -
                                            static_cast<std::int64_t>(head.a));
  return RoundTrip{taken, taken / 2 - since_sent};
}

}  // namespace

/// When the beats lane has been silent for too long.
TimePoint LinkSession::beats_silent_at() const {
  if (their_stamp_ != 0) {
    return last_heard_ + options_.lease;
  }
  // Where many come at once, the connection of the first beat may be made long
  // after that of the greeting.
  return std::min(std::max(last_heard_, control_heard_) + options_.lease,
                  last_heard_ + kControlLeases * options_.lease);
}

TimePoint LinkSession::silent_at() const {
  return std::min(beats_silent_at(),
                  control_heard_ + kControlLeases * options_.lease);
}

/// Ends the session if the peer has been silent for too long.
bool LinkSession::is_silent(TimePoint now) {
  if (now < silent_at()) {
    return false;
  }
  const bool no_beats = now >= beats_silent_at();
  const std::string since = no_beats
                                ? " for " + to_text(options_.lease)
                                : " on its control lane for " +
                                      to_text(kControlLeases * options_.lease);
  transmit({.kind = FrameKind::bye},
           sentence_payload("nothing was heard of this side" + since));
  end(Loss{LossCause::silent, "nothing was heard of " + options_.peer + since});
  return true;
}

void LinkSession::lane_opened(Lane lane, TimePoint now) {
  is_open_[static_cast<std::size_t>(lane)] = true;
  closed_due_ = TimePoint::max();
  trouble_.clear();  // it is over
  if (state_ != State::up) {
    return;
  }
  // What was lost with the old connection is found out now, and not when
  // something would have been said anyway.
  if (lane == Lane::control) {
    send_have(0, now);
  } else if (has_dialled() && lane == Lane::values) {
    send_here(now);
  } else if (has_dialled()) {
    send_beat(now);
  }
}

void LinkSession::lane_closed(Lane lane, TimePoint now) {
  if (std::exchange(is_open_[static_cast<std::size_t>(lane)], false) &&
      std::ranges::count(is_open_, true) == 0 && state_ == State::up &&
      round_trip_) {
    looks_left_ = kGraceLooks;
    closed_due_ = now + grace() / kGraceLooks;
  }
}

Duration LinkSession::grace() const {
  return options_.reconnect_grace +
         kReconnectRoundTrips * round_trip_.value_or(Duration{});
}

/// Ends the session if all connections have been closed for too long.
bool LinkSession::is_closed(TimePoint now) {
  if (now < closed_due_) {
    return false;
  }
  if (--looks_left_ > 0) {
    closed_due_ = now + grace() / kGraceLooks;
    return false;
  }
  const std::string since = " for " + to_text(grace());
  transmit(
      {.kind = FrameKind::bye},
      sentence_payload("all connections of this side were closed" + since));
  end(Loss{LossCause::closed,
           "all connections of " + options_.peer + " were closed" + since});
  return true;
}

void LinkSession::send_beat(TimePoint now) {
  const Duration held = now - their_stamp_at_;
  transmit(
      {.kind = FrameKind::beat,
       .a = stamp_of(now),
       .b = their_stamp_,
       .c = static_cast<std::uint64_t>(std::chrono::nanoseconds(held).count())},
      beat_payload_.empty() ? SharedBytes{} : share(beat_payload_));
  beat_due_ = now + beat_interval_;
}

void LinkSession::beat(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (head.a <= their_stamp_ || frame.payload.size() > kMostBeatBytes) {
    return;  // an older one: the latest wins
  }
  const bool is_first = their_stamp_ == 0;
  their_stamp_ = head.a;
  their_stamp_at_ = now;
  last_heard_ = now;
  const std::optional<RoundTrip> round_trip =
      round_trip_of(head, stamp_of(now));
  if (round_trip) {
    const Duration before = round_trip_.value_or(round_trip->taken);
    round_trip_ = before + (round_trip->taken - before) / kSmoothing;
  }
  commands_.emplace_back(
      DeliverBeat{std::string(text_of(frame.payload)), round_trip});
  if (is_first) {
    send_beat(now);  // so that both sides soon know the round trip
  }
}

}  // namespace troupe::net
