#include "net/zmq_loop.h"

#include <algorithm>
#include <utility>

#include "kernels/core/log.h"

// What the hub's thread does: jobs, time, sockets. zmq_frames.cpp has what
// happens to a frame, zmq_commands.cpp what happens to a policy's commands.

namespace troupe::net {
namespace {

/// Of the authenticator; listeners and lanes follow.
constexpr std::uint64_t kAuthenticator = 1;
/// Frames that are read of one socket before the next socket.
constexpr int kFramesPerTurn = 64;

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
  const std::uint64_t monitor =
      watch({.socket = listening.monitor, .is_monitor = true});
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
    if (source.monitor != 0) {
      source.socket->stop_monitor();
    }
  }
  sources_.clear();
}

}  // namespace troupe::net
