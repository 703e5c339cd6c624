#include "actors/remote/peer_clock.h"

#include <algorithm>
#include <cstdint>

namespace troupe::actors {
namespace {

/// Two clocks of quartz drift apart by less than this part of the time. A clock
/// that is being adjusted may drift faster: then the bounds cross, and are
/// measured again.
constexpr int kDriftShare = 10'000;

/// Wraps around instead of overflowing.
Duration sum(Duration a, Duration b) {
  return Duration(
      static_cast<std::int64_t>(static_cast<std::uint64_t>(a.count()) +
                                static_cast<std::uint64_t>(b.count())));
}

}  // namespace

void PeerClock::hear(const net::RoundTrip& round_trip, TimePoint now) {
  const Duration half = round_trip.taken / 2 + Duration(1);
  const Duration least = round_trip.clock_ahead - half;
  const Duration most = round_trip.clock_ahead + half;
  const Duration drift = (now - heard_) / kDriftShare;
  least_ = std::max(least_ - drift, least);
  most_ = std::min(most_ + drift, most);
  // At first there are no bounds; later a clock may have been set right.
  if (!is_known_ || least_ > most_) {
    least_ = least;
    most_ = most;
  }
  is_known_ = true;
  heard_ = now;
}

/// Processes of one host have one clock, and two hosts that started within a
/// round trip of each other are as well served by 0 as by any other bound.
Duration PeerClock::ahead() const {
  const bool may_be_ours = least_ <= Duration{} && most_ >= Duration{};
  return may_be_ours ? Duration{} : least_ + (most_ - least_) / 2;
}

std::optional<Duration> PeerClock::error() const {
  if (!is_known_) {
    return std::nullopt;
  }
  return std::max(most_ - ahead(), ahead() - least_);
}

void PeerClock::place(TraceSpan& span, TimePoint now) const {
  const Duration age = now.time_since_epoch();  // of our clock
  span.duration = std::clamp(span.duration, Duration{}, age);
  Duration end = age;
  if (is_known_) {
    end = sum(sum(span.start.time_since_epoch(), span.duration), -ahead());
  }
  span.start = TimePoint(std::clamp(end, Duration{}, age) - span.duration);
}

}  // namespace troupe::actors
