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

/// Turns what ZeroMQ says of a greeting's connection into what a person can
/// mend.
void HubLoop::dialled_event(PeerId peer, Lane lane, const ZmqEvent& event) {
  const TimePoint now = clock_.now();
  if (event.kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    session_event(peer, LaneOpened{lane}, now);
  } else if (event.kind == ZMQ_EVENT_DISCONNECTED) {
    session_event(peer, LaneClosed{lane}, now);
  } else if (lane != Lane::control) {
    return;  // it is as with this one
  } else if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    session_event(
        peer, ConnectionTrouble{"does not let this side's key in", true}, now);
  } else if (event.kind == ZMQ_EVENT_CLOSED) {
    session_event(
        peer,
        ConnectionTrouble{"takes no connection: nobody listens there", false},
        now);
  } else {
    session_event(
        peer,
        ConnectionTrouble{"ends the connection at once: it has another key, or "
                          "keys where this side has none",
                          false},
        now);
  }
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
  // A connection that was closed before this one was accepted may have had the
  // same descriptor: first what happened until now.
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
