// The part of LinkPair for frames, timers and faults.

#include <algorithm>
#include <utility>

#include "tests/simulator/link_pair.h"

namespace troupe::actors::simulator {

void LinkPair::send(Side from, net::Transmit frame, TimePoint now) {
  const End& its = end(from);
  if (its.session && frame.head.session == net::SessionId{}) {
    frame.head.session = its.session->id();  // of a value
  }
  if (const auto due = wire_.send(from, std::move(frame), now)) {
    listener_.wake_link(number_, due->pipe, due->when);
  }
}

Side LinkPair::runner_of(std::size_t what) {
  return what < LinkWire::kNumPipes
             ? LinkWire::taker_of(what)
             : static_cast<Side>(what - LinkWire::kNumPipes);
}

void LinkPair::due(std::size_t what, TimePoint now) {
  if (what >= LinkWire::kNumPipes) {
    timer(runner_of(what), now);
    return;
  }
  std::optional<TimePoint> again;
  const auto frame = wire_.take(what, now, again);
  if (again) {
    listener_.wake_link(number_, what, *again);
  }
  if (frame) {
    arrived(*frame, runner_of(what), now);
  }
}

/// As HubLoop::listened_frame and dialled_frame.
void LinkPair::arrived(const LinkWire::Arrived& arrived, Side side,
                       TimePoint now) {
  End& its = end(side);
  const net::FrameArrived frame{arrived.frame.head,
                                arrived.frame.payload.span()};
  const net::FrameKind kind = frame.head.kind;
  if (side == Side::listener && !its.session && !its.has_ended &&
      kind == net::FrameKind::hello) {
    its.session = net::LinkSession::listening(options("the member"), now);
  }
  if (!its.session) {
    if (side == Side::listener && its.has_ended &&
        kind != net::FrameKind::bye && kind != net::FrameKind::hello) {
      wire_.learn(arrived.lane, arrived.connection);
      send(side,
           {{.kind = net::FrameKind::bye,
             .flags = net::kForgotten,
             .session = frame.head.session},
            {}},
           now);
    }
    return;
  }
  if (side == Side::listener) {
    wire_.learn(arrived.lane, arrived.connection);
  }
  if (arrived.lane != net::Lane::values) {
    count(its, frame.head, now);
    hear(side, net::SessionEvent(frame), now);
  } else if (its.is_up) {
    if (kind == net::FrameKind::want || kind == net::FrameKind::done) {
      hear(side, net::HolderEvent(frame), now);
    } else {
      hear(side, net::AskerEvent(frame), now);
    }
  }
}

void LinkPair::count(End& its, const net::FrameHead& head, TimePoint now) {
  if (head.kind != net::FrameKind::record || !its.is_up) {
    return;
  }
  if (head.a <= its.seen) {
    ++counts_.duplicates;
  } else if (head.a == its.seen + 1) {
    its.seen = head.a;
    its.is_in_record = (head.flags & net::kMore) != 0;
    if (its.is_in_record && cuts_in_record_) {
      cuts_in_record_ = false;
      listener_.link_cut(number_);
      cut(net::Lane::control, reconnect_, random_.chance(0.5), now);
    }
  }
}

void LinkPair::timer(Side side, TimePoint now) {
  End& its = end(side);
  if (!its.due || now < *its.due) {
    return;
  }
  its.due.reset();
  const auto is_due = [now](const auto& policy) {
    const auto due = policy.next_deadline();
    return due && *due <= now;
  };
  if (is_due(its.asker)) {
    hear(side, net::AskerEvent(net::Woken{}), now);
  }
  if (is_due(its.holder)) {
    hear(side, net::HolderEvent(net::Woken{}), now);
  }
  if (its.session && is_due(*its.session)) {
    hear(side, net::SessionEvent(net::Woken{}), now);
  }
  schedule(side);
}

void LinkPair::schedule(Side side) {
  End& its = end(side);
  if (!its.session || its.has_ended) {
    return;
  }
  auto due = its.session->next_deadline();
  for (const auto other :
       {its.asker.next_deadline(), its.holder.next_deadline()}) {
    if (other) {
      due = std::min(due.value_or(*other), *other);
    }
  }
  if (due && (!its.due || *due < *its.due)) {
    its.due = due;
    listener_.wake_link(number_, LinkWire::kNumPipes + index_of(side), *due);
  }
}

// ---- faults

void LinkPair::cut(Duration down, bool lingers, TimePoint now) {
  for (const net::Lane lane :
       {net::Lane::control, net::Lane::values, net::Lane::beats}) {
    cut(lane, down, lingers, now);
  }
}

void LinkPair::cut(net::Lane lane, Duration down, bool lingers, TimePoint now) {
  if (lane == net::Lane::control) {
    for (const Side side : {Side::member, Side::listener}) {
      const End& its = end(side);
      counts_.lost_in_record +=
          its.is_in_record && wire_.next_record(side) == its.seen + 1 ? 1 : 0;
    }
  }
  for (const LinkWire::Due& due : wire_.cut(lane, down, lingers, now)) {
    listener_.wake_link(number_, due.pipe, due.when);
  }
}

}  // namespace troupe::actors::simulator
