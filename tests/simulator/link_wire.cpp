#include "tests/simulator/link_wire.h"

#include <algorithm>
#include <utility>

namespace troupe::actors::simulator {

std::optional<LinkWire::Due> LinkWire::send(Side from, net::Transmit frame,
                                            TimePoint now) {
  const net::Lane lane = net::lane_of(frame.head.kind);
  const Connection& its = connection(lane);
  const bool is_down = now < its.up_at;
  const bool is_lost = from == Side::member
                           ? is_down && lane == net::Lane::beats
                           : is_down || its.route != its.number;
  if (is_lost) {
    return std::nullopt;
  }
  const std::size_t number = pipe_to(other(from), lane);
  Pipe& pipe = pipes_[number];
  const auto bytes = static_cast<double>(net::kHeadBytes + frame.payload.size);
  const std::chrono::duration<double> takes(bytes / model_.bytes_per_second);
  pipe.free_at = std::max({now, its.up_at, pipe.free_at}) +
                 std::chrono::duration_cast<Duration>(takes);
  pipe.last_due = std::max({pipe.last_due, pipe.blocked_until,
                            pipe.free_at + model_.latency +
                                random_.between(Duration{}, model_.jitter)});
  pipe.frames.push_back({pipe.last_due, its.number, std::move(frame)});
  return Due{number, pipe.last_due};
}

std::optional<LinkWire::Arrived> LinkWire::take(
    std::size_t number, TimePoint now, std::optional<TimePoint>& again) {
  Pipe& pipe = pipes_[number];
  if (pipe.frames.empty() || pipe.frames.front().due > now) {
    return std::nullopt;  // it was lost with its connection
  }
  if (pipe.blocked_until > now) {
    again = pipe.blocked_until;
    return std::nullopt;
  }
  OnWay first = std::move(pipe.frames.front());
  pipe.frames.pop_front();
  return Arrived{static_cast<net::Lane>(number / kPipesPerLane),
                 first.connection, std::move(first.frame)};
}

std::vector<LinkWire::Due> LinkWire::cut(net::Lane lane, Duration down,
                                         bool lingers, TimePoint now) {
  Connection& its = connection(lane);
  ++its.number;
  its.up_at = std::max(its.up_at, now + down);
  Pipe& late = pipes_[late_pipe(lane)];
  Pipe& there = pipes_[pipe_to(Side::listener, lane)];
  Pipe& back = pipes_[pipe_to(Side::member, lane)];
  std::vector<Due> due;
  if (lingers) {
    // It is read when the new connection has been read for a while, or before.
    TimePoint when =
        std::max(late.last_due, now + random_.between(Duration{}, 3 * down));
    for (OnWay& frame : there.frames) {
      when = std::max(when, frame.due);
      frame.due = when;
      due.push_back({late_pipe(lane), when});
      late.frames.push_back(std::move(frame));
    }
    late.last_due = when;
    late.blocked_until = there.blocked_until;
  }
  for (Pipe* const pipe : {&there, &back}) {
    pipe->frames.clear();
    pipe->free_at = now;
    pipe->last_due = now;
  }
  return due;
}

void LinkWire::block(Side to, TimePoint until) {
  for (std::size_t number = 0; number < kNumPipes; ++number) {
    if (taker_of(number) == to) {
      Pipe& pipe = pipes_[number];
      pipe.blocked_until = std::max(pipe.blocked_until, until);
    }
  }
}

std::optional<std::uint64_t> LinkWire::next_record(Side to) const {
  for (const OnWay& on_way : pipes_[pipe_to(to, net::Lane::control)].frames) {
    if (on_way.frame.head.kind == net::FrameKind::record) {
      return on_way.frame.head.a;
    }
  }
  return std::nullopt;
}

}  // namespace troupe::actors::simulator
