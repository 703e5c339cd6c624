#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/job_status.h"
#include "actors/messages.h"
#include "actors/observer.h"
#include "net/link.h"

namespace troupe::actors {

/// Roles of clients in a company, as greetings name them: one may look, the
/// other may cancel too.
inline constexpr std::string_view kClientRole = "client";
inline constexpr std::string_view kOwnerRole = "owner";

struct ClientServiceSpec {
  std::string version;  ///< of Troupe: another is refused
  /// Of the job, now. Any thread.
  std::function<JobStatus()> status;
  /// Cancels the job. `by`: who asked for it, as the client says, and the host
  /// that it dialled from. Must not wait. Any thread.
  std::function<void(const std::string& by)> cancel;
  /// Global indices that the job makes: [begin, end) without `skip`.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<std::uint64_t> skip = {};
};

/// Answers clients of a job that listens: `troupe ls` reads the status, `troupe
/// cancel` cancels the job or a sample. The cancel of a sample is answered when
/// the sample has ended. A client without the right to cancel, or with a
/// question that cannot be read, is disconnected.
/// Thread: any.
class ClientService final : public Observer {
 public:
  explicit ClientService(ClientServiceSpec spec);

  // What a LinkHandler hears.

  /// False: the peer is no client, and is not answered.
  [[nodiscard]] bool accept(net::Hub& hub, net::PeerId peer,
                            const net::Greeting& greeting);
  /// Nothing happens for a peer that is no client.
  void hear(net::Hub& hub, net::PeerId peer, std::span<const std::byte> record);
  /// Whether it was a client.
  bool remove(net::PeerId peer);

  /// The company is there; without one, no sample is cancelled.
  void open(const CoordinatorActor& coordinator);
  void close();

  void on_sample(const SampleOutcome& outcome) override;

 private:
  struct Client {
    net::Hub* hub = nullptr;
    bool may_cancel = false;
    std::string name;     ///< for people: host and process, as it says
    std::string address;  ///< of its host; empty: this one
  };

  [[nodiscard]] static std::string label_of(const Client& client,
                                            const AskStop& ask);
  void answer(net::PeerId peer, const ClientAnswer& answer);
  void take(net::PeerId peer, const ClientQuestion& question);
  void cancel(net::PeerId peer, std::uint64_t sample_index);

  ClientServiceSpec spec_;
  std::mutex mutex_;
  CoordinatorActor coordinator_;
  std::map<net::PeerId, Client> clients_;
  std::map<std::uint64_t, SampleStatus> ended_;  ///< by sample
  /// Who waits for a sample's end.
  std::map<std::uint64_t, std::set<net::PeerId>> waiting_;
};

}  // namespace troupe::actors
