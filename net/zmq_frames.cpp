#include <algorithm>
#include <string>
#include <utility>

#include "net/zmq_loop.h"

// What happens to a frame that has arrived.

namespace troupe::net {
namespace {

/// Peers that may wait for an answer to their greeting at once: each takes up
/// to 64 KiB here.
constexpr std::size_t kMostUnanswered = 256;
/// Frames of unknown sessions that are answered within a second.
constexpr int kMostForgotten = 100;

}  // namespace

HubLoop::Incoming HubLoop::read_frame(const ZmqFrame& frame) {
  const auto head = frame.bytes.first(std::min(frame.bytes.size(), kHeadBytes));
  const auto payload = frame.bytes.subspan(head.size());
  return {read_head(head, payload), payload};
}

/// Whether this was the payload of the chunk before it on its connection.
bool HubLoop::finish_chunk(std::uint64_t id, const ZmqFrame& frame,
                           TimePoint now) {
  if (half_chunks_.empty()) {
    return false;
  }
  const auto found = half_chunks_.find({id, frame.route});
  if (found == half_chunks_.end()) {
    return false;
  }
  const HalfChunk half = found->second;
  half_chunks_.erase(found);
  // Otherwise the payload was lost with a connection.
  if (frame.bytes.size() != half.head.d) {
    return false;
  }
  arrived_value(*find(half.peer), {half.head, frame.bytes}, now);
  return true;
}

void HubLoop::dialled_frame(std::uint64_t id, const ZmqFrame& frame,
                            TimePoint now) {
  if (finish_chunk(id, frame, now)) {
    return;
  }
  const auto [read, payload] = read_frame(frame);
  const PeerId peer = sources_.at(id).peer;
  if (read.state == FrameState::good) {
    arrived(*find(peer), {read.head, payload}, id, {}, now);
  } else if (read.state == FrameState::version) {
    session_event(peer,
                  OtherVersion{read.version, read.head.kind == FrameKind::refuse
                                                 ? sentence_of(payload)
                                                 : std::string{}},
                  now);
  }
}

void HubLoop::listened_frame(std::uint64_t id, ZmqFrame& frame, TimePoint now) {
  if (finish_chunk(id, frame, now)) {
    return;
  }
  const Source& source = sources_.at(id);
  const auto [read, payload] = read_frame(frame);
  if (read.state == FrameState::alien) {
    return;
  }
  if (read.state == FrameState::version) {
    if (read.head.kind == FrameKind::hello) {
      const Transmit refusal = refuse_version(read.version);
      source.socket->send(frame.route, refusal.head, refusal.payload);
    }
    return;
  }
  const FrameHead& head = read.head;
  const auto known = sessions_.find(head.session.dialler);
  Peer* peer = known == sessions_.end() ? nullptr : find(known->second);
  const bool is_hello = head.kind == FrameKind::hello;
  if (peer == nullptr && is_hello) {
    peer = add_peer(head, source, frame, now);
    if (peer == nullptr) {
      return;
    }
  } else if (peer == nullptr || (!is_hello && head.kind != FrameKind::bye &&
                                 head.session != peer->session.id())) {
    forgotten(head, id, frame, now);
    return;
  }
  if (learn_route(*peer, lane_of(head.kind), id, frame, now)) {
    arrived(*peer, {head, payload}, id, frame.route, now);
  }
}

/// Makes a peer for a greeting, if there is room for one.
HubLoop::Peer* HubLoop::add_peer(const FrameHead& head, const Source& source,
                                 ZmqFrame& frame, TimePoint now) {
  if (num_unanswered_ >= kMostUnanswered || head.session.dialler == 0) {
    return nullptr;  // it greets again
  }
  const PeerId id = take_peer_id();
  const std::string address =
      source.transport == Transport::tcp ? frame.address() : std::string{};
  const std::string name =
      "peer " + std::to_string(id) + (address.empty() ? "" : " at " + address);
  auto peer = std::make_unique<Peer>(
      id, LinkSession::listening(session_options(name), now), name);
  peer->has_user = source.has_users;
  peer->user = frame.user();
  peer->address = address;
  ++num_unanswered_;
  sessions_.emplace(head.session.dialler, id);
  return peers_.emplace(id, std::move(peer)).first->second.get();
}

/// Answers to the peer go to the connection of its last frame. False for a
/// frame under another key.
bool HubLoop::learn_route(Peer& peer, Lane lane, std::uint64_t id,
                          ZmqFrame& frame, TimePoint now) {
  LaneEnd& end = peer.lanes[static_cast<std::size_t>(lane)];
  if (end.source == id && end.route == frame.route) {
    return true;
  }
  if (peer.has_user && frame.user() != peer.user) {
    return false;
  }
  end.source = id;
  end.socket = sources_.at(id).socket;
  end.route = frame.route;
  take_connection(peer, lane, id, frame, now);
  for (Transmit& waiting : std::exchange(end.waiting, {})) {
    transmit(peer, std::move(waiting));
  }
  return true;
}

/// Says so, but not to everybody who sends rubbish.
void HubLoop::forgotten(const FrameHead& head, std::uint64_t id,
                        const ZmqFrame& frame, TimePoint now) {
  if (head.kind == FrameKind::bye || head.kind == FrameKind::refuse) {
    return;
  }
  if (now - forgotten_since_ > std::chrono::seconds(1)) {
    forgotten_since_ = now;
    num_forgotten_ = 0;
  }
  if (++num_forgotten_ <= kMostForgotten) {
    sources_.at(id).socket->send(
        frame.route,
        {.kind = FrameKind::bye, .flags = kForgotten, .session = head.session},
        {});
  }
}

void HubLoop::arrived(Peer& peer, const FrameArrived& frame, std::uint64_t id,
                      const std::string& route, TimePoint now) {
  const FrameHead& head = frame.head;
  if (lane_of(head.kind) != Lane::values) {
    if (apply(peer, peer.session.on(frame, now), now)) {
      schedule(peer);
    }
  } else if (!peer.session.is_up() || head.session != peer.session.id()) {
    return;
  } else if (head.kind == FrameKind::chunk && (head.flags & kFollows) != 0) {
    if (head.d > kMostInlineChunk && head.d <= kMostPayloadBytes) {
      half_chunks_.erase(peer.half_chunk);
      peer.half_chunk = {id, route};
      half_chunks_[peer.half_chunk] = {peer.id, head};
    }
  } else {
    arrived_value(peer, frame, now);
  }
}

void HubLoop::arrived_value(Peer& peer, const FrameArrived& frame,
                            TimePoint now) {
  if (frame.head.kind == FrameKind::want ||
      frame.head.kind == FrameKind::done) {
    apply(peer, peer.holder.on(frame, now));
  } else {
    apply(peer, peer.asker.on(frame, now));
  }
  schedule(peer);
}

}  // namespace troupe::net
