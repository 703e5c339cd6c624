#include "net/zmq_loop.h"

#include <algorithm>

#include "kernels/core/text.h"

// The hub's thread: jobs, time and sockets; frames that arrive; commands of the
// policies; connections.

namespace troupe::net {
namespace {

/// Of the authenticator; listeners and lanes follow.
constexpr std::uint64_t kAuthenticator = 1;
/// Frames that are read of one socket before the next socket.
constexpr int kFramesPerTurn = 64;

/// Peers that may wait for an answer to their greeting at once: each takes up
/// to 64 KiB here.
constexpr std::size_t kMostUnanswered = 256;
/// Frames of unknown sessions that are answered within a second.
constexpr int kMostForgotten = 100;

/// Frames that wait until a peer is heard on a lane for the first time.
constexpr std::size_t kMostWaiting = 256;

}  // namespace

HubLoop::HubLoop(ZmqContext context, const HubOptions& options,
                 LinkHandler& handler, HubShared& shared)
    : options_(options),
      handler_(handler),
      shared_(shared),
      context_(std::move(context)),
      accepted_(std::min<std::size_t>(options_.most_unidentified,
                                      most_descriptors() / 2)),
      forgotten_since_(clock_.now()) {
  if (options_.keys) {
    authenticator_.emplace(context_);
    for (const AllowedKey& key : options_.keys->allowed) {
      authenticator_->allow(key);
    }
    poller_.add(kAuthenticator, &authenticator_->socket());
  }
}

void HubLoop::run() {
  while (true) {
    take_jobs();  // of callbacks, too
    if (is_stopping_) {
      break;
    }
    wake_due();
    const auto until =
        due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
    const auto& readable = poller_.wait(until);
    // First what was asked for before these frames came: who is let in, say.
    take_jobs();
    for (const std::uint64_t source : readable) {
      drain(source);
    }
  }
  close_all(clock_.now());
}

void HubLoop::take_jobs() {
  std::vector<HubShared::Job> jobs;
  {
    const std::lock_guard lock(shared_.mutex);
    jobs.swap(shared_.jobs);
  }
  const TimePoint now = clock_.now();
  for (const HubShared::Job& job : jobs) {
    job(*this, now);
  }
}

void HubLoop::wake_due() {
  const TimePoint now = clock_.now();
  while (!due_.empty() && due_.begin()->first <= now) {
    Peer* peer = find(due_.begin()->second);
    due_.erase(due_.begin());
    peer->due.reset();
    const auto is_due = [&](const auto& policy) {
      const auto due = policy.next_deadline();
      return due && *due <= now;
    };
    if (is_due(peer->asker)) {
      apply(*peer, peer->asker.on(Woken{}, now));
    }
    if (is_due(peer->holder)) {
      apply(*peer, peer->holder.on(Woken{}, now));
    }
    if (!is_due(peer->session) ||
        apply(*peer, peer->session.on(Woken{}, now), now)) {
      schedule(*peer);
    }
  }
}

/// Deadlines move with every frame, mostly later: one that comes too soon finds
/// nothing due and is set again.
void HubLoop::schedule(Peer& peer) {
  auto due = peer.session.next_deadline();
  for (const auto other :
       {peer.asker.next_deadline(), peer.holder.next_deadline()}) {
    if (other) {
      due = std::min(due.value_or(*other), *other);
    }
  }
  if (due && (!peer.due || *due < *peer.due)) {
    if (peer.due) {
      due_.erase({*peer.due, peer.id});
    }
    peer.due = due;
    due_.emplace(*due, peer.id);
  }
}

void HubLoop::drain(std::uint64_t id) {
  if (id == kAuthenticator) {
    authenticator_->answer();
    poller_.touch(id);
    return;
  }
  const auto watched = sources_.find(id);
  if (watched != sources_.end() && watched->second.is_monitor) {
    drain_monitor(id);
    accepted_.shed(clock_.now());
    poller_.touch(id);
    return;
  }
  ZmqFrame frame;
  for (int i = 0; i < kFramesPerTurn; ++i) {
    const auto source = sources_.find(id);
    if (source == sources_.end()) {
      return;  // its peer is lost
    }
    if (!source->second.socket->receive(frame)) {
      break;
    }
    const TimePoint now = clock_.now();
    if (source->second.peer != 0) {
      dialled_frame(id, frame, now);
    } else {
      listened_frame(id, frame, now);
    }
  }
  poller_.touch(id);
}

void HubLoop::stop_watching(std::uint64_t source) {
  poller_.remove(source);
  sources_.erase(source);
}

HubLoop::Peer* HubLoop::find(PeerId peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second.get();
}

std::uint64_t HubLoop::watch(Source source) {
  const std::uint64_t id = next_source_++;
  poller_.add(id, source.socket.get());
  sources_.emplace(id, std::move(source));
  return id;
}

SessionOptions HubLoop::session_options(std::string name) {
  std::uint64_t random = 0;
  while (random == 0) {
    random = (std::uint64_t{random_()} << 32U) | random_();
  }
  return {.peer = std::move(name),
          .role = options_.role,
          .random = random,
          .lease = options_.lease,
          .beat_interval = options_.beat_interval,
          .reconnect_grace = options_.reconnect_grace,
          .greeting_deadline = options_.greeting_deadline,
          .room = options_.room};
}

void HubLoop::add_listener(const Listening& listening) {
  const std::uint64_t monitor = watch({.socket = listening.monitor,
                                       .transport = listening.transport,
                                       .is_monitor = true});
  watch({.socket = listening.socket,
         .transport = listening.transport,
         .has_users = listening.has_users,
         .monitor = monitor});
}

void HubLoop::add_dialled(PeerId id, const Dialled& dialled, TimePoint now) {
  SessionOptions options = session_options(dialled.name);
  options.greeting_deadline = dialled.deadline;
  auto peer = std::make_unique<Peer>(
      id, LinkSession::dialling(std::move(options), dialled.record, now),
      dialled.name);
  peer->is_announced = true;
  peer->is_answered = true;
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
    peer->lanes[lane].socket = dialled.lanes[lane];
    peer->lanes[lane].source =
        watch({.socket = dialled.lanes[lane], .peer = id});
    if (dialled.monitors[lane]) {
      peer->lanes[lane].monitor = watch({.socket = dialled.monitors[lane],
                                         .peer = id,
                                         .is_monitor = true,
                                         .lane = static_cast<Lane>(lane)});
    }
  }
  schedule(*peer);
  peers_.emplace(id, std::move(peer));
}

void HubLoop::session_event(PeerId id, const SessionEvent& event,
                            TimePoint now) {
  Peer* peer = find(id);
  if (peer != nullptr && apply(*peer, peer->session.on(event, now), now)) {
    schedule(*peer);
  }
}

void HubLoop::fetch(PeerId id, AskFor ask, FetchTaker taker, TimePoint now) {
  Peer* peer = find(id);
  if (peer == nullptr || !peer->session.is_up()) {
    taker({.status = FetchStatus::lost,
           .value = {},
           .what = "the peer is lost, or not up yet"});
    return;
  }
  fetches_.emplace(ask.fetch, std::pair(id, std::move(taker)));
  apply(*peer, peer->asker.on(ask, now));
  schedule(*peer);
}

void HubLoop::answer(WantId want, const HolderEvent& event, TimePoint now) {
  Peer* peer = find(want >> 32U);
  if (peer != nullptr) {
    apply(*peer, peer->holder.on(event, now));
    schedule(*peer);
  }
}

void HubLoop::close_all(TimePoint now) {
  while (!peers_.empty()) {
    Peer& peer = *peers_.begin()->second;
    apply(peer, peer.session.on(Leave{"its process ends"}, now), now);
  }
  take_jobs();  // what was asked meanwhile is answered
  for (const auto& [id, source] : sources_) {
    poller_.remove(id);
    if (source.monitor != 0) {
      source.socket->stop_monitor();
    }
  }
  sources_.clear();
}

// ---- frames that have arrived

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

// ---- commands of the policies

bool HubLoop::apply(Peer& peer, std::vector<SessionCommand> commands,
                    TimePoint now) {
  for (SessionCommand& command : commands) {
    if (auto* frame = std::get_if<Transmit>(&command)) {
      transmit(peer, std::move(*frame));
    } else if (const auto* ended = std::get_if<Ended>(&command)) {
      end(peer, ended->loss, now);
      return false;
    } else if (is_stopping_) {
      continue;
    } else if (const auto* record = std::get_if<DeliverRecord>(&command)) {
      handler_.on_record(peer.id, bytes_of(record->record));
    } else if (const auto* beat = std::get_if<DeliverBeat>(&command)) {
      handler_.on_beat(peer.id, beat->round_trip);
    } else if (const auto* room = std::get_if<MadeRoom>(&command)) {
      made_room(peer.id, room->room);
    } else if (auto* greeted = std::get_if<Greeted>(&command)) {
      if (!let_in(peer, std::move(greeted->greeting), now)) {
        return false;
      }
    } else {
      came_up(peer, std::get<CameUp>(command).greeting);
    }
  }
  return true;
}

/// Asks the process, if the peer's key permits the role.
bool HubLoop::let_in(Peer& peer, Greeting greeting, TimePoint now) {
  if (peer.has_user && !authenticator_->may_have(peer.user, greeting.role)) {
    const Leave no{"your key may not have the role " +
                   in_quotes(greeting.role)};
    return apply(peer, peer.session.on(no, now), now);
  }
  peer.is_announced = true;
  greeting.address = peer.address;
  handler_.on_greeting(peer.id, greeting);
  return true;
}

void HubLoop::came_up(Peer& peer, const Greeting& greeting) {
  if (!std::exchange(peer.is_answered, true)) {
    --num_unanswered_;
    peer.asker.rename(peer.session.peer());
  }
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.rooms[peer.id] = {.free = peer.session.room()};
  }
  handler_.on_up(peer.id, greeting);
}

void HubLoop::made_room(PeerId peer, std::size_t room) {
  {
    const std::lock_guard lock(shared_.mutex);
    const auto its = shared_.rooms.find(peer);
    if (its == shared_.rooms.end()) {
      return;  // it is being left
    }
    its->second.free += room;
    if (!its->second.is_wanted || its->second.free < options_.room / 2) {
      return;
    }
    its->second.is_wanted = false;
  }
  handler_.on_room(peer);
}

void HubLoop::apply(Peer& peer, std::vector<AskerCommand> commands) {
  for (AskerCommand& command : commands) {
    if (auto* frame = std::get_if<Transmit>(&command)) {
      frame->head.session = peer.session.id();
      transmit(peer, std::move(*frame));
    } else {
      auto& ended = std::get<FetchEnded>(command);
      finish(ended.fetch, std::move(ended.fetched));
    }
  }
}

void HubLoop::finish(FetchId fetch, Fetched fetched) {
  const auto found = fetches_.find(fetch);
  const FetchTaker taker = std::move(found->second.second);
  fetches_.erase(found);
  taker(std::move(fetched));
}

void HubLoop::apply(Peer& peer, std::vector<HolderCommand> commands) {
  for (HolderCommand& command : commands) {
    if (auto* frame = std::get_if<Transmit>(&command)) {
      frame->head.session = peer.session.id();
      transmit(peer, std::move(*frame));
    } else if (is_stopping_) {
      continue;
    } else {
      const auto& [want, key] = std::get<Wanted>(command);
      handler_.on_wanted(peer.id, want, key);
    }
  }
}

/// What cannot be sent now is dropped: the policies send again.
void HubLoop::transmit(Peer& peer, Transmit frame) {
  LaneEnd& end = peer.lanes[static_cast<std::size_t>(lane_of(frame.head.kind))];
  if (end.socket) {
    end.socket->send(end.route, frame.head, frame.payload);
    poller_.touch(end.source);
  } else if (lane_of(frame.head.kind) == Lane::values &&
             end.waiting.size() < kMostWaiting) {
    end.waiting.push_back(std::move(frame));
  }
}

void HubLoop::end(Peer& ended, const std::optional<Loss>& loss, TimePoint now) {
  const auto at = peers_.find(ended.id);
  const std::unique_ptr<Peer> peer = std::move(at->second);
  peers_.erase(at);
  if (peer->due) {
    due_.erase({*peer->due, peer->id});
  }
  const auto session = sessions_.find(peer->session.id().dialler);
  if (session != sessions_.end() && session->second == peer->id) {
    sessions_.erase(session);
  }
  if (!peer->is_answered) {
    --num_unanswered_;
  }
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.rooms.erase(peer->id);
  }
  const LinkClosed closed{
      loss ? loss->what : peer->session.peer() + " was left by this process"};
  apply(*peer, peer->asker.on(closed, now));
  apply(*peer, peer->holder.on(closed, now));
  half_chunks_.erase(peer->half_chunk);
  stop_monitors(*peer);
  for (std::size_t i = 0; i < kNumLanes; ++i) {
    const LaneEnd& lane = peer->lanes[i];
    accepted_.give_back(lane.descriptor, {peer->id, static_cast<Lane>(i)}, now);
    const auto source = sources_.find(lane.source);
    if (source != sources_.end() && source->second.peer == peer->id) {
      stop_watching(lane.source);
    }
  }
  if (loss && peer->is_announced && !is_stopping_) {
    handler_.on_lost(peer->id, *loss);
  }
}

// ---- connections, as the monitors of ZeroMQ report them

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
      accepted_event(source->second, *event);
    } else {
      dialled_event(source->second.peer, source->second.lane, *event);
    }
  }
}

/// Of a connection that a listener has accepted. ZeroMQ says that a handshake
/// failed without the connection, and right after it that this has ended.
void HubLoop::accepted_event(Source& monitor, const ZmqEvent& event) {
  if (event.kind == ZMQ_EVENT_ACCEPTED) {
    accepted_.accept(event.value, clock_.now());
    return;
  }
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
    monitor.has_failed = true;
    return;
  }
  if (std::exchange(monitor.has_failed, false)) {
    handshake_failed(monitor, accepted_.address_of(event.value));
  }
  if (const auto owner = accepted_.close(event.value)) {
    closed(*owner);
  }
}

/// A connection may end before its address is read. Such failures are passed
/// over where an address was told, and at first: processes try again.
void HubLoop::handshake_failed(Source& monitor, const std::string& address) {
  constexpr std::size_t kMostAddresses = 100;
  constexpr int kManyUnknown = 20;
  if (address.empty() && monitor.transport == Transport::tcp &&
      (!other_keys_.empty() || ++monitor.num_unknown < kManyUnknown)) {
    return;
  }
  if (other_keys_.size() < kMostAddresses &&
      other_keys_.insert(address).second) {
    handler_.on_other_key(address);
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
