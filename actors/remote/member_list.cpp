#include "actors/remote/member_list.h"

#include <algorithm>
#include <random>
#include <utility>

#include "actors/remote/member_log.h"
#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"
#include "net/endpoint.h"

namespace troupe::actors {
namespace {

using wire::News;

/// 128 bits that nobody guesses.
std::string make_token() {
  std::random_device random;
  const auto word = [&random] {
    const std::uint64_t high = random();
    return to_hex((high << 32U) | random());
  };
  const std::string first = word();
  return first + word();
}

/// A host as an endpoint names it; "" stays.
std::string host_of(std::string address) {
  constexpr std::string_view kMapped = "::ffff:";  // IPv4, at an IPv6 socket
  if (address.starts_with(kMapped)) {
    address.erase(0, kMapped.size());
  }
  return address.find(':') == std::string::npos || address.starts_with('[')
             ? address
             : "[" + address + "]";
}

/// Whether processes of this machine alone can dial it.
bool is_of_one_host(const std::string& endpoint) {
  return !net::is_public(net::parse_endpoint(endpoint));
}

/// The message to `member` about another process, with the endpoints that
/// `member` can dial; nothing: there are none.
std::optional<std::string> address_for(const Member& member,
                                       PeerAddress other) {
  if (!member.is_of_this_host) {
    std::erase_if(other.endpoints, is_of_one_host);
  }
  return other.endpoints.empty() ? std::nullopt
                                 : std::optional(wire::encode(News(other)));
}

void notify(const Member& member, const PeerAddress& other) {
  if (const auto address = address_for(member, other)) {
    member.outbox->send(*address);
  }
}

}  // namespace

std::vector<std::string> dialled_endpoints(
    const std::vector<std::string>& endpoints, const std::string& address) {
  std::vector<std::string> dialled;
  for (const std::string& text : endpoints) {
    const net::Endpoint endpoint = net::parse_endpoint(text);
    require(endpoint.port != "*", Errc::invalid_argument, "link",
            "the endpoint " + in_quotes(text) + " has no port to dial");
    const bool is_any = endpoint.transport == net::Transport::tcp &&
                        (endpoint.where == "*" || endpoint.where == "0.0.0.0" ||
                         endpoint.where == "[::]");
    if (!is_any) {
      dialled.push_back(endpoint.text);
    } else if (!address.empty()) {
      dialled.push_back("tcp://" + host_of(address) + ":" + endpoint.port);
    }
  }
  return dialled;
}

bool refuse_other_version(net::Hub& hub, net::PeerId peer,
                          const Applicant& applicant, const std::string& own) {
  if (applicant.version == own) {
    return false;
  }
  const std::string why = "other versions of Troupe: got " + applicant.version +
                          ", expected " + own;
  log_refused("a process (" + applicant.name + ")", why);
  hub.refuse(peer, why);
  return true;
}

PeerTokens new_tokens() { return {make_token(), make_token()}; }

std::shared_ptr<Member> MemberList::add(net::Hub& hub, net::PeerId peer,
                                        const Applicant& applicant,
                                        const std::string& address) {
  const auto member = std::make_shared<Member>();
  member->peer = peer;
  member->process = static_cast<int>(known_.size()) + 1;
  member->address = {member->process,
                     dialled_endpoints(applicant.endpoints, address),
                     new_tokens()};
  member->is_of_this_host =
      address.empty() || is_of_one_host("tcp://" + host_of(address) + ":1");
  member->outbox = std::make_shared<Outbox>(hub, peer);
  members_[peer] = member;
  known_.push_back({.name = applicant.name, .process = member->process});
  return member;
}

void MemberList::came_up(Member& member) {
  member.is_up = true;
  for (const auto& [peer, other] : members_) {
    if (other->is_up && other->process != member.process) {
      notify(member, other->address);
      notify(*other, member.address);
    }
  }
}

void MemberList::gives_model(Member& member, bool gives) {
  if (std::exchange(member.address.gives_model, gives) == gives ||
      !member.is_up) {
    return;
  }
  for (const auto& [peer, other] : members_) {
    if (other->is_up && other->process != member.process) {
      notify(*other, member.address);
    }
  }
}

std::shared_ptr<Member> MemberList::find(net::PeerId peer) const {
  const auto found = members_.find(peer);
  return found == members_.end() ? nullptr : found->second;
}

std::shared_ptr<Member> MemberList::find_process(int process) const {
  const auto found = std::ranges::find_if(members_, [&](const auto& one) {
    return one.second->process == process;
  });
  return found == members_.end() ? nullptr : found->second;
}

bool MemberList::anyone_works() const {
  return std::ranges::any_of(
      members_, [](const auto& one) { return one.second->works(); });
}

bool MemberList::has_gone_before(const Member& member) const {
  const auto own = static_cast<std::size_t>(member.process - 1);
  return std::ranges::any_of(known_, [&](const Process& one) {
    return one.has_left() && one.process != member.process &&
           one.name == known_[own].name;
  });
}

std::shared_ptr<Member> MemberList::remove(net::PeerId peer, bool notifies) {
  const auto found = members_.find(peer);
  if (found == members_.end()) {
    return nullptr;
  }
  const std::shared_ptr<Member> member = found->second;
  members_.erase(found);
  if (notifies && member->is_up) {
    const std::string gone =
        wire::encode(News(PeerAddress{member->process, {}, {}, {}}));
    for (const auto& [its_peer, other] : members_) {
      if (other->is_up && address_for(*other, member->address)) {
        other->outbox->send(gone);
      }
    }
  }
  return member;
}

}  // namespace troupe::actors
