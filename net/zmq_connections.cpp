#include <utility>

#include "net/zmq_loop.h"

// What becomes of connections, as ZeroMQ's monitors tell.

namespace troupe::net {

void HubLoop::drain_monitor(std::uint64_t id) {
  while (true) {
    const auto source = sources_.find(id);
    if (source == sources_.end()) {
      return;  // its peer is lost
    }
    const auto event = source->second.socket->receive_event();
    if (!event) {
      return;
    }
    if (source->second.peer == 0) {
      accepted_event(*event);
    } else {
      dialled_event(source->second.peer, source->second.lane, *event);
    }
  }
}

/// Of a connection that a listener has accepted.
void HubLoop::accepted_event(const ZmqEvent& event) {
  if (event.kind == ZMQ_EVENT_ACCEPTED) {
    accepted_.accept(event.value, clock_.now());
  } else if (const auto owner = accepted_.close(event.value)) {
    closed(*owner);
  }
}

void HubLoop::closed(const AcceptedConnections::Owner& owner) {
  session_event(owner.peer, LaneClosed{owner.lane}, clock_.now());
}

void HubLoop::dialled_event(PeerId id, Lane lane, const ZmqEvent& event) {
  const TimePoint now = clock_.now();
  if (event.kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    session_event(id, LaneOpened{lane}, now);
  } else if (event.kind == ZMQ_EVENT_DISCONNECTED) {
    session_event(id, LaneClosed{lane}, now);
  } else if (Peer* const peer = find(id);
             peer != nullptr && lane == Lane::control) {
    // The other lanes would report the same.
    LaneEnd& end = peer->lanes[static_cast<std::size_t>(lane)];
    session_event(id, trouble_of(end, event, now), now);
  }
}

/// Turns what ZeroMQ says of a greeting's connection into what a person can
/// mend.
ConnectionTrouble HubLoop::trouble_of(LaneEnd& lane, const ZmqEvent& event,
                                      TimePoint now) {
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    return {"does not let this side's key in", true};
  }
  if (event.kind == ZMQ_EVENT_CLOSED) {
    lane.was_ended = false;
    return {"takes no connection, as nobody listens there", false};
  }
  if (event.kind == ZMQ_EVENT_CONNECTED) {
    // Until this attempt ends, the reason of the last one counts.
    lane.connected = now;
  } else {
    // ZeroMQ does not report which side ended the handshake. ZeroMQ itself ends
    // a handshake after kMostHandshake; the quarter is for a connect event that
    // was read late.
    lane.was_ended = now - lane.connected < kMostHandshake * 3 / 4;
  }
  if (lane.was_ended) {
    return {
        "ends the connection at once: it has another key, or keys where "
        "this side has none",
        false};
  }
  return {
      "takes the connection and says nothing; look whether the address is "
      "right and whether the process there runs (it may be stopped)",
      false};
}

void HubLoop::stop_monitors(Peer& peer) {
  for (LaneEnd& lane : peer.lanes) {
    if (lane.monitor != 0) {
      lane.socket->stop_monitor();
      stop_watching(std::exchange(lane.monitor, 0));
    }
  }
}

/// The lane's frames come by this connection from now on.
void HubLoop::take_connection(Peer& peer, Lane lane, std::uint64_t id,
                              ZmqFrame& frame, TimePoint now) {
  // The descriptor may have belonged to an older connection with an unread
  // close event: read the monitor first.
  drain_monitor(sources_.at(id).monitor);
  LaneEnd& end = peer.lanes[static_cast<std::size_t>(lane)];
  const AcceptedConnections::Owner owner{peer.id, lane};
  accepted_.give_back(end.descriptor, owner, now);
  end.descriptor = frame.descriptor();
  const auto before = accepted_.take(end.descriptor, owner);
  session_event(peer.id, LaneOpened{lane}, now);
  if (!before && end.descriptor >= 0) {
    closed(owner);
  } else if (before && before->peer != peer.id) {
    closed(*before);
  }
}

}  // namespace troupe::net
