#include <algorithm>
#include <string>
#include <utility>

#include "kernels/core/text.h"
#include "net/zmq_loop.h"

// What happens to the commands of the policies.

namespace troupe::net {
namespace {

/// Frames that wait until a peer is heard on a lane for the first time.
constexpr std::size_t kMostWaiting = 256;

}  // namespace

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
      handler_.on_beat(peer.id, bytes_of(beat->payload), beat->round_trip);
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
    } else if (const auto* wanted = std::get_if<Wanted>(&command)) {
      handler_.on_wanted(peer.id, wanted->want, wanted->key);
    } else {
      handler_.on_unwanted(std::get<Unwanted>(command).want);
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

}  // namespace troupe::net
