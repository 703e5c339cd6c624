#pragma once

#include <optional>

#include "actors/grant.h"
#include "kernels/core/clock.h"
#include "net/link.h"

namespace troupe::actors {

/// How far the clock of another process is ahead of ours, measured by beats:
/// each gives two bounds, and all of them together the narrowest. The clocks of
/// two hosts drift, so older bounds grow wider with time.
/// Thread: one at a time.
class PeerClock {
 public:
  /// The round trip that a beat measured, at `now`.
  void hear(const net::RoundTrip& round_trip, TimePoint now);
  /// By how much placed spans can be wrong; nothing: no beat has come yet.
  [[nodiscard]] std::optional<Duration> error() const;
  /// Puts a span of that process, which may say anything of its times, on our
  /// time line. It has ended when we hear of it, at `now`; before the first
  /// beat, just then.
  void place(TraceSpan& span, TimePoint now) const;

 private:
  [[nodiscard]] Duration ahead() const;

  bool is_known_ = false;
  Duration least_{};  ///< bounds of how far it is ahead
  Duration most_{};
  TimePoint heard_{};  ///< when they were set
};

}  // namespace troupe::actors
