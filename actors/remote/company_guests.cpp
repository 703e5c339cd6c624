#include "actors/remote/company_guests.h"

#include <algorithm>
#include <random>
#include <utility>

#include "actors/remote/guest_log.h"
#include "actors/wire/news_codec.h"
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

/// What `guest` is told of another: what it can dial.
std::optional<std::string> address_for(const Guest& guest, PeerAddress other) {
  if (!guest.is_of_this_host) {
    std::erase_if(other.endpoints, is_of_one_host);
  }
  return other.endpoints.empty() ? std::nullopt
                                 : std::optional(wire::encode(News(other)));
}

void tell(const Guest& guest, const PeerAddress& other) {
  if (const auto address = address_for(guest, other)) {
    guest.outbox->send(*address);
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

std::shared_ptr<Guest> CompanyGuests::let_in(net::Hub& hub, net::PeerId peer,
                                             const Applicant& applicant,
                                             const std::string& address) {
  const auto guest = std::make_shared<Guest>();
  guest->peer = peer;
  guest->process = static_cast<int>(known_.size()) + 1;
  guest->address = {guest->process,
                    dialled_endpoints(applicant.endpoints, address),
                    new_tokens()};
  guest->is_of_this_host =
      address.empty() || is_of_one_host("tcp://" + host_of(address) + ":1");
  guest->outbox = std::make_shared<Outbox>(hub, peer);
  guests_[peer] = guest;
  known_.push_back({.process = guest->process, .name = applicant.name});
  return guest;
}

void CompanyGuests::came_up(Guest& guest) {
  guest.is_up = true;
  for (const auto& [peer, other] : guests_) {
    if (other->is_up && other->process != guest.process) {
      tell(guest, other->address);
      tell(*other, guest.address);
    }
  }
}

void CompanyGuests::gives_model(Guest& guest, bool gives) {
  if (std::exchange(guest.address.gives_model, gives) == gives ||
      !guest.is_up) {
    return;
  }
  for (const auto& [peer, other] : guests_) {
    if (other->is_up && other->process != guest.process) {
      tell(*other, guest.address);
    }
  }
}

std::shared_ptr<Guest> CompanyGuests::find(net::PeerId peer) const {
  const auto found = guests_.find(peer);
  return found == guests_.end() ? nullptr : found->second;
}

std::shared_ptr<Guest> CompanyGuests::find_process(int process) const {
  const auto found = std::ranges::find_if(
      guests_, [&](const auto& one) { return one.second->process == process; });
  return found == guests_.end() ? nullptr : found->second;
}

bool CompanyGuests::anyone_works() const {
  return std::ranges::any_of(
      guests_, [](const auto& one) { return one.second->works(); });
}

bool CompanyGuests::has_gone_before(const Guest& guest) const {
  const auto own = static_cast<std::size_t>(guest.process - 1);
  return std::ranges::any_of(known_, [&](const RemoteProcess& one) {
    return one.gone && one.process != guest.process &&
           one.name == known_[own].name;
  });
}

std::shared_ptr<Guest> CompanyGuests::remove(net::PeerId peer, bool tells) {
  const auto found = guests_.find(peer);
  if (found == guests_.end()) {
    return nullptr;
  }
  const std::shared_ptr<Guest> guest = found->second;
  guests_.erase(found);
  if (tells && guest->is_up) {
    const std::string gone =
        wire::encode(News(PeerAddress{guest->process, {}, {}, {}}));
    for (const auto& [its_peer, other] : guests_) {
      if (other->is_up && address_for(*other, guest->address)) {
        other->outbox->send(gone);
      }
    }
  }
  return guest;
}

}  // namespace troupe::actors
