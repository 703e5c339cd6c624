#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/remote/company_listener.h"
#include "actors/remote/company_member.h"
#include "actors/shells.h"
#include "net/link.h"

namespace troupe::actors {

/// A hub that stands before another: a test changes what goes through it.
class HubBefore : public net::Hub {
 public:
  explicit HubBefore(std::unique_ptr<net::Hub> hub) : hub_(std::move(hub)) {}

  std::string listen(const std::string& endpoint) override {
    return hub_->listen(endpoint);
  }
  net::PeerId dial(const std::string& endpoint,
                   net::DialOptions options) override {
    return hub_->dial(endpoint, std::move(options));
  }
  void accept(net::PeerId peer, std::string record, std::string name) override {
    hub_->accept(peer, std::move(record), std::move(name));
  }
  void refuse(net::PeerId peer, std::string sentence) override {
    hub_->refuse(peer, std::move(sentence));
  }
  void leave(net::PeerId peer, std::string sentence) override {
    hub_->leave(peer, std::move(sentence));
  }
  net::SendResult send(net::PeerId peer, net::SharedBytes record) override {
    return hub_->send(peer, std::move(record));
  }
  void fetch(net::PeerId peer, std::string key, net::FetchOptions options,
             net::FetchTaker taker) override {
    hub_->fetch(peer, std::move(key), options, std::move(taker));
  }
  void give(net::WantId want, net::Value value) override {
    hub_->give(want, std::move(value));
  }
  void give_nothing(net::WantId want) override { hub_->give_nothing(want); }

 private:
  std::unique_ptr<net::Hub> hub_;
};

/// How the processes of a job are linked, one for each worker.
struct LinksOptions {
  enum class Peers : std::uint8_t {
    both,  ///< it listens for other workers' processes and dials them
    dials,
    neither,
  };
  std::function<Peers(std::size_t worker)> peers = [](std::size_t) {
    return Peers::both;
  };
  using Wrap =
      std::function<std::unique_ptr<net::Hub>(std::unique_ptr<net::Hub>)>;
  Wrap wrap_worker = {};       ///< the hub of each worker's process
  Wrap wrap_coordinator = {};  ///< that of the other one
  /// Of all of them.
  Duration silence = LinkChannelOptions{}.silence;
  /// Of their ipc sockets; empty: the links stay within this process.
  std::string folder = {};
  /// Called when a worker has come up at the coordinator: grants from the next
  /// result on count with that worker. Thread: a hub's.
  std::function<void()> on_worker_up = [] {};
};

struct LinksResult {
  JobResult job;
  /// Bytes of tensors that one worker's process asked of another through the
  /// coordinator's.
  std::uint64_t bytes_relayed = 0;
  std::vector<Process> processes;
};

/// The offer of a job, with the part of its record that messages are checked
/// against.
[[nodiscard]] Offer offer_of(const JobSpec& spec);

/// Runs a job with a process for each worker and one for the coordinator, which
/// computes nothing. They are threads of this process.
[[nodiscard]] LinksResult run_over_links(JobSpec spec,
                                         const LinksOptions& options = {});

}  // namespace troupe::actors
