#include "actors/remote/peer_routes.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

/// From a link that could not be made, or broke, to the next try.
constexpr auto kRest = std::chrono::seconds(10);

}  // namespace

void PeerRoutes::begin(int own_process, PeerTokens tokens) {
  own_process_ = own_process;
  tokens_ = std::move(tokens);
}

void PeerRoutes::link(int process, net::PeerId peer) {
  std::vector<net::PeerId>& links = peers_[process].links;
  links.insert(links.begin(), peer);
  whose_[peer] = process;
}

PeerRoutes::Moves PeerRoutes::set_address(const PeerAddress& address) {
  if (address.endpoints.empty()) {
    const auto found = peers_.find(address.process);
    Moves moves;
    if (found != peers_.end()) {
      moves.leave = take_links(found->second);
      peers_.erase(found);
    }
    std::erase_if(
        whose_, [&](const auto& one) { return one.second == address.process; });
    return moves;
  }
  Peer& peer = peers_[address.process];
  peer.address = address;
  return {};
}

PeerRoutes::Route PeerRoutes::ask(int process, TimePoint now) {
  const auto found = peers_.find(process);
  if (found == peers_.end()) {
    return {};
  }
  Peer& peer = found->second;
  if (!peer.links.empty()) {
    return {Way::direct, peer.links.front(), {}};
  }
  Route route;
  const bool may_wait = !peer.was_dialled;
  if (!peer.is_dialling && !peer.is_distrusted && own_process_ >= 0 &&
      !peer.address.endpoints.empty() && now >= peer.rests_until) {
    peer.is_dialling = true;
    peer.next_endpoint = 0;
    route.moves = dial_next(peer, now);
  }
  route.way = peer.is_dialling && may_wait ? Way::wait : Way::relay;
  return route;
}

void PeerRoutes::dialled(int process, net::PeerId peer) {
  peers_[process].dial = peer;
  whose_[peer] = process;
}

PeerRoutes::Moves PeerRoutes::not_dialled(int process, TimePoint now) {
  const auto found = peers_.find(process);
  return found == peers_.end() ? Moves{} : dial_next(found->second, now);
}

PeerRoutes::Moves PeerRoutes::dial_next(Peer& peer, TimePoint now) {
  Moves moves;
  if (peer.next_endpoint < peer.address.endpoints.size()) {
    moves.dial = {peer.address.process,
                  peer.address.endpoints[peer.next_endpoint++],
                  {own_process_, peer.address.tokens.request}};
  } else {
    peer.is_dialling = false;
    peer.was_dialled = true;
    peer.rests_until = now + kRest;
  }
  return moves;
}

PeerRoutes::Moves PeerRoutes::came_up(net::PeerId id,
                                      const PeerGreeting& greeting,
                                      TimePoint now) {
  const auto whose = whose_.find(id);
  if (whose == whose_.end()) {
    return {{}, {id}};
  }
  const auto found = peers_.find(whose->second);
  if (found == peers_.end() || found->second.is_distrusted) {
    return {{}, {id}};
  }
  Peer& peer = found->second;
  if (peer.dial != id) {  // the peer dialled this process
    peer.links.push_back(id);
    return {};
  }
  if (greeting.process != whose->second ||
      greeting.token != peer.address.tokens.answer) {
    // Another process listens there by now.
    Moves moves = lost(id, now);
    moves.leave.push_back(id);
    return moves;
  }
  peer.dial.reset();
  peer.is_dialling = false;
  peer.was_dialled = true;
  peer.links.push_back(id);
  return {};
}

std::optional<PeerGreeting> PeerRoutes::accept(net::PeerId peer,
                                               const PeerGreeting& greeting) {
  if (own_process_ < 0 || greeting.token != tokens_.request ||
      greeting.process <= kHomeProcess || greeting.process == own_process_ ||
      peers_[greeting.process].is_distrusted) {
    return std::nullopt;
  }
  whose_[peer] = greeting.process;
  return PeerGreeting{own_process_, tokens_.answer};
}

PeerRoutes::Moves PeerRoutes::lost(net::PeerId id, TimePoint now) {
  const auto whose = whose_.find(id);
  if (whose == whose_.end()) {
    return {};
  }
  const auto found = peers_.find(whose->second);
  whose_.erase(whose);
  if (found == peers_.end()) {
    return {};
  }
  Peer& peer = found->second;
  if (peer.dial == id) {
    peer.dial.reset();
    return dial_next(peer, now);
  }
  if (std::erase(peer.links, id) > 0) {
    peer.was_dialled = true;
    peer.rests_until = now + kRest;
  }
  return {};
}

PeerRoutes::Moves PeerRoutes::distrust(int process) {
  const auto found = peers_.find(process);
  if (found == peers_.end()) {
    return {};
  }
  found->second.is_distrusted = true;
  Moves moves{{}, take_links(found->second)};
  for (const net::PeerId peer : moves.leave) {
    whose_.erase(peer);
  }
  return moves;
}

std::vector<net::PeerId> PeerRoutes::take_links(Peer& peer) {
  std::vector<net::PeerId> all = std::exchange(peer.links, {});
  if (peer.dial) {
    all.push_back(*std::exchange(peer.dial, {}));
  }
  peer.is_dialling = false;
  return all;
}

std::vector<int> PeerRoutes::model_givers() const {
  std::vector<int> givers;
  for (const auto& [process, peer] : peers_) {
    if (peer.address.gives_model && !peer.is_distrusted) {
      givers.push_back(process);
    }
  }
  return givers;
}

std::optional<int> PeerRoutes::process_of(net::PeerId peer) const {
  const auto found = whose_.find(peer);
  return found == whose_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace troupe::actors
