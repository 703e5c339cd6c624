#include "net/zmq_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/core/log.h"

// What the hub's thread does: jobs, time, sockets. zmq_frames.cpp has what
// happens to a frame, zmq_commands.cpp what happens to a policy's commands.

namespace troupe::net {
namespace {

/// Of the authenticator; listeners and lanes follow.
constexpr std::uint64_t kAuthenticator = 1;
/// Frames of one socket before others have their turn.
constexpr int kFramesPerTurn = 64;

}  // namespace

HubLoop::HubLoop(ZmqContext context, const HubOptions& options,
                 LinkHandler& handler, HubShared& shared)
    : options_(options),
      handler_(handler),
      shared_(shared),
      context_(std::move(context)),
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
/// nothing due and is set anew.
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
    const Source monitor = watched->second;
    drain_monitor(monitor.peer, *monitor.socket);
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

/// Turns what ZeroMQ says of a connection into what a person can mend.
void HubLoop::drain_monitor(PeerId peer, ZmqSocket& monitor) {
  while (const auto parts = monitor.receive_parts(2)) {
    std::uint16_t event = 0;
    if ((*parts)[0].size() < sizeof(event)) {
      continue;
    }
    std::memcpy(&event, (*parts)[0].data(), sizeof(event));
    ConnectionTrouble trouble;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
      trouble = {"does not let this side's key in", true};
    } else if (event == ZMQ_EVENT_CLOSED) {
      trouble.why = "takes no connection: nobody listens there";
    } else if (event != ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      trouble.why =
          "ends the connection at once: it has another key, or keys where this "
          "side has none";
    }
    session_event(peer, trouble, clock_.now());
  }
}

void HubLoop::stop_monitor(Peer& peer) {
  if (peer.monitor != 0) {
    const auto control = static_cast<std::size_t>(Lane::control);
    peer.lanes[control].socket->stop_monitor();
    stop_watching(std::exchange(peer.monitor, 0));
  }
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
          .greeting_deadline = options_.greeting_deadline,
          .room = options_.room};
}

void HubLoop::add_listener(std::shared_ptr<ZmqSocket> socket,
                           Transport transport, bool has_users) {
  watch({.socket = std::move(socket),
         .peer = 0,
         .transport = transport,
         .has_users = has_users});
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
  }
  peer->monitor =
      watch({.socket = dialled.monitor, .peer = id, .is_monitor = true});
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
           .what = "peer " + std::to_string(id) + " is not there"});
    return;
  }
  fetches_.emplace(ask.fetch, std::pair(id, std::move(taker)));
  apply(*peer, peer->asker.on(ask, now));
  schedule(*peer);
}

void HubLoop::cancel(FetchId fetch, TimePoint now) {
  const auto found = fetches_.find(fetch);
  if (found != fetches_.end()) {
    Peer* peer = find(found->second.first);
    apply(*peer, peer->asker.on(CancelFetch{fetch}, now));
  }
}

void HubLoop::answer(WantId want, const HolderEvent& event, TimePoint now) {
  Peer* peer = find(want >> 32U);
  if (peer != nullptr) {
    apply(*peer, peer->holder.on(event, now));
    schedule(*peer);
  }
}

void HubLoop::allow(const AllowedKey& key) {
  if (authenticator_) {
    authenticator_->allow(key);
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
  }
  sources_.clear();
}

}  // namespace troupe::net
