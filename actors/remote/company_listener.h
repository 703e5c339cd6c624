#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/job_classes.h"
#include "actors/remote/client_service.h"
#include "actors/remote/link_channel.h"
#include "actors/remote/member_list.h"
#include "actors/remote/member_log.h"
#include "actors/remote/model_files.h"
#include "actors/remote/proxies.h"
#include "actors/shells.h"
#include "net/link.h"

namespace troupe::actors {

struct ListenerSpec {
  std::string version;  ///< of Troupe: another is refused
  net::HubOptions hub;
  std::vector<std::string> endpoints;
  std::string place = "--listen";  ///< where they were given, for errors
  Offer offer;
  /// Gives numbers to the classes that processes bring. It outlives the
  /// listener.
  JobClasses* classes = nullptr;
  std::string required_class = {};  ///< empty: any may join
  /// What a row took earlier on a worker of a class, on a device of this name
  /// (DeviceMeans) with so many threads; 0: not known. Empty: of none. Any
  /// thread calls it.
  std::function<double(const ClassRecord& of, const std::string& device,
                       int threads)>
      row_seconds = {};
  JobValues values = {};  ///< all that the job's record names
  /// Workers of other processes do all the work: when the last of them has
  /// gone, the job waits.
  bool only_directs = false;
  /// For processes that have not got the model; null: they need their own copy.
  std::shared_ptr<ModelGiver> model = {};
  /// Answers clients; it outlives the listener. Null: they are strangers.
  ClientService* clients = nullptr;
  /// As LinkChannelOptions::silence.
  Duration silence = LinkChannelOptions{}.silence;
  /// Makes the hub; empty: net::make_hub.
  std::function<std::unique_ptr<net::Hub>(net::HubOptions, net::LinkHandler&)>
      make_hub = {};
};

/// Lets processes of this and other hosts into a job: the side of the
/// coordinator. It listens from the beginning. A process that comes is offered
/// the job at once, and joins when it has loaded the model. Hand `detours()` to
/// run_company.
/// Errors of the constructor: those of listen_at.
/// Thread: any.
class CompanyListener final : private net::LinkHandler {
 public:
  explicit CompanyListener(ListenerSpec spec);
  ~CompanyListener() override;
  CompanyListener(const CompanyListener&) = delete;
  CompanyListener& operator=(const CompanyListener&) = delete;

  /// Where it listens, with the ports that were found.
  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept {
    return endpoints_;
  }
  /// For one run_company, which ends before the listener.
  [[nodiscard]] Detours detours();
  /// Sends JobOver to all members, and waits for a while until they have left.
  void end(std::optional<Failure> cause);
  /// All processes that were ever let in.
  [[nodiscard]] std::vector<Process> processes() const;
  /// Bytes of tensors that links brought to this process, and took from it.
  [[nodiscard]] std::uint64_t bytes_fetched() const;
  [[nodiscard]] std::uint64_t bytes_given() const;
  /// Part of bytes_given: values that this process relayed between two other
  /// processes.
  [[nodiscard]] std::uint64_t bytes_relayed() const;

 private:
  void on_greeting(net::PeerId peer, const net::Greeting& greeting) override;
  void on_up(net::PeerId peer, const net::Greeting& greeting) override;
  void on_record(net::PeerId peer, std::span<const std::byte> record) override;
  void on_room(net::PeerId peer) override;
  void on_beat(net::PeerId peer,
               const std::optional<net::RoundTrip>& round_trip) override;
  void on_wanted(net::PeerId peer, net::WantId want,
                 std::string_view key) override;
  void on_other_key(const std::string& address) override;
  void on_lost(net::PeerId peer, const net::Loss& loss) override;

  void start(caf::actor_system& system, CoordinatorActor coordinator);
  void stop();
  [[nodiscard]] std::shared_ptr<Member> member_of(net::PeerId peer) const;
  void tell(CoordinatorEvent event);
  void hear(Member& member, wire::News news);
  void join(Member& member, Join join);
  void present(Member& member, const Join& join);
  void note_round_trip(Member& member, Duration taken);
  void report_link(Member& member);
  void measure(Member& member);
  void measured(net::PeerId peer, const std::optional<LinkPace>& from_it,
                const std::optional<LinkPace>& to_it);
  void measure_neighbours(const Member& member);
  /// The departure for the log; nothing: it is expected. `has_ended`: as
  /// ProcessDown.
  std::optional<Departure> remove_member(net::PeerId peer,
                                         const std::string& why,
                                         bool has_ended);
  [[nodiscard]] Rest rest() const;
  void breach(net::PeerId peer, const std::string& what);
  void damaged(int process, const std::string& what);
  void blame(const std::shared_ptr<Member>& by, const DamagedValue& value);
  void find_other(const ValueName& name, int holder,
                  std::function<void(std::optional<int>)> then);

  ListenerSpec spec_;
  std::string offer_;  ///< encoded
  std::uint64_t job_;  ///< hash_of the offer's record
  std::vector<std::string> endpoints_;
  std::shared_ptr<LinkChannel> channel_;
  mutable std::mutex mutex_;
  std::condition_variable left_;
  caf::actor_system* system_ = nullptr;  ///< while the company is there
  CoordinatorActor coordinator_;
  bool is_over_ = false;
  std::optional<Failure> cause_;  ///< why the job failed
  MemberList members_;
  /// Last, so it ends first: until then its thread calls the handler, which
  /// calls the hub.
  std::unique_ptr<net::Hub> hub_;
};

}  // namespace troupe::actors
