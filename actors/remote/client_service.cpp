#include "actors/remote/client_service.h"

#include <algorithm>
#include <utility>

#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// At a time: each may ask for an answer of 1 MiB again and again.
constexpr std::size_t kMostClients = 64;

std::string words_for(std::uint64_t sample_index, SampleStatus status) {
  const std::string image = "image " + std::to_string(sample_index);
  switch (status) {
    case SampleStatus::cancelled:
      return image + " was cancelled";
    case SampleStatus::done:
      return image + " is done: there was nothing left to cancel";
    case SampleStatus::failed:
      return image + " has failed: there was nothing left to cancel";
    case SampleStatus::unfinished:
      break;
  }
  return image + " was not finished";
}

}  // namespace

/// "ann at host:42, from 10.0.0.7". User and name come from the client, so any
/// bytes may stand in them.
std::string ClientService::label_of(const Client& client, const AskStop& ask) {
  constexpr std::size_t kLongest = 128;
  return printable(ask.user.empty() ? "somebody" : ask.user, kLongest) +
         " at " + printable(client.name, kLongest) +
         (client.address.empty() ? "" : ", from " + client.address);
}

ClientService::ClientService(ClientServiceSpec spec) : spec_(std::move(spec)) {
  std::ranges::sort(spec_.skip);
}

bool ClientService::accept(net::Hub& hub, net::PeerId peer,
                           const net::Greeting& greeting) {
  const bool may_cancel = greeting.role == kOwnerRole;
  if (!may_cancel && greeting.role != kClientRole) {
    return false;
  }
  try {
    const Applicant client =
        wire::decode_applicant(net::bytes_of(greeting.record));
    require(client.version == spec_.version, Errc::unsupported, "client",
            "other versions of Troupe: got " + client.version + ", expected " +
                spec_.version);
    {
      const std::lock_guard lock(mutex_);
      require(clients_.size() < kMostClients, Errc::unsupported, "client",
              "too many clients look at the job: got " +
                  std::to_string(clients_.size()));
      clients_[peer] = {&hub, may_cancel, client.name, greeting.address};
    }
    hub.accept(peer, wire::encode(Welcome{spec_.version}));
  } catch (const Error& error) {
    hub.refuse(peer, error.message());
  }
  return true;
}

void ClientService::hear(net::Hub& hub, net::PeerId peer,
                         std::span<const std::byte> record) {
  {
    const std::lock_guard lock(mutex_);
    if (!clients_.contains(peer)) {
      return;
    }
  }
  try {
    take(peer, wire::decode_question(record));
  } catch (const Error& error) {
    hub.leave(peer, error.message());
    remove(peer);
  }
}

bool ClientService::remove(net::PeerId peer) {
  const std::lock_guard lock(mutex_);
  for (auto& [sample, peers] : waiting_) {
    peers.erase(peer);
  }
  return clients_.erase(peer) > 0;
}

void ClientService::open(const CoordinatorActor& coordinator) {
  const std::lock_guard lock(mutex_);
  coordinator_ = coordinator;
}

void ClientService::close() {
  const std::lock_guard lock(mutex_);
  coordinator_ = nullptr;
}

void ClientService::on_sample(const SampleOutcome& outcome) {
  const std::uint64_t index = outcome.report.sample_index;
  std::set<net::PeerId> peers;
  {
    const std::lock_guard lock(mutex_);
    ended_[index] = outcome.report.status;
    if (const auto found = waiting_.find(index); found != waiting_.end()) {
      peers = std::move(found->second);
      waiting_.erase(found);
    }
  }
  for (const net::PeerId peer : peers) {
    answer(peer, Granted{words_for(index, outcome.report.status)});
  }
}

void ClientService::answer(net::PeerId peer, const ClientAnswer& answer) {
  const std::string record = wire::encode(answer);
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(peer);
  if (found != clients_.end() &&
      found->second.hub->send(peer, net::share(record)) ==
          net::SendResult::no_room) {
    // It asks, and reads no answers.
    found->second.hub->leave(peer, "the client reads no answers");
    clients_.erase(found);
  }
}

void ClientService::take(net::PeerId peer, const ClientQuestion& question) {
  if (std::holds_alternative<AskStatus>(question)) {
    answer(peer, spec_.status());
    return;
  }
  Client client;
  {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(peer);
    require(found != clients_.end() && found->second.may_cancel,
            Errc::invalid_argument, "client", "it may look, and not cancel");
    client = found->second;
  }
  if (const auto* sample = std::get_if<CancelSample>(&question)) {
    cancel(peer, sample->sample_index);
  } else {
    spec_.cancel(label_of(client, std::get<AskStop>(question)));
    answer(peer, Granted{"the job is cancelled; finished images stay"});
  }
}

void ClientService::cancel(net::PeerId peer, std::uint64_t sample_index) {
  const std::string place = "--sample";
  if (sample_index < spec_.begin || sample_index >= spec_.end ||
      std::ranges::binary_search(spec_.skip, sample_index)) {
    answer(peer,
           Failure{Errc::invalid_argument,
                   place,
                   "the job makes no such image: got " +
                       std::to_string(sample_index) + ", expected one of " +
                       std::to_string(spec_.begin) + " to " +
                       std::to_string(spec_.end - 1) +
                       (spec_.skip.empty() ? "" : " that was not there before"),
                   {}});
    return;
  }
  std::optional<SampleStatus> ended;
  bool is_here = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = ended_.find(sample_index); found != ended_.end()) {
      ended = found->second;
    } else if (coordinator_) {
      is_here = true;
      waiting_[sample_index].insert(peer);
      caf::anon_send(coordinator_,
                     CoordinatorEvent(CancelSample{sample_index}));
    }
  }
  if (ended) {
    answer(peer, Granted{words_for(sample_index, *ended)});
  } else if (!is_here) {
    answer(peer, Failure{Errc::unreachable, place,
                         "the job does not run at this moment", "try again"});
  }
}

}  // namespace troupe::actors
