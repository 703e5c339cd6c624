#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "actors/job_parts.h"
#include "actors/remote/link_channel.h"
#include "actors/remote/model_hosts.h"
#include "actors/remote/proxies.h"
#include "actors/supervisor_policy.h"
#include "actors/worker_traits.h"
#include "kernels/core/executor.h"
#include "net/inproc_channel.h"
#include "net/link.h"

namespace troupe::actors {

/// How this process gets to values of other workers' processes without the
/// coordinator's.
struct PeerSpec {
  std::string bind;              ///< where it listens for them; empty: nowhere
  std::string place = "--bind";  ///< where that was given, for errors
  /// What they dial instead of that; empty: nothing else. Port "*" or 0: the
  /// one that was found.
  std::string advertise = {};
  /// If it cannot listen it goes on without; the log says so.
  bool may_fail = false;
  std::optional<net::PublicKey> key = {};  ///< of the others, if there are keys
  /// How long another process may take to answer a dial. The first question for
  /// a value of that process waits for the dial, and is relayed after this
  /// time.
  Duration deadline = std::chrono::seconds(2);
};

struct MemberSpec {
  std::string version;  ///< of Troupe
  std::string name;     ///< for people: host and process
  net::HubOptions hub;
  std::string endpoint;              ///< of the coordinator's process
  std::string place = "--join";      ///< where that was given, for errors
  config::WorkerCount workers = {};  ///< as Applicant::workers
  net::DialOptions dial;
  /// None: it neither listens nor dials, and the coordinator's process relays.
  std::optional<PeerSpec> peers = {};
  /// For the coordinator's process to offer the job once it is dialled, and to
  /// admit this one once it has joined.
  Duration patience = std::chrono::seconds(10);
  /// As LinkChannelOptions::silence.
  Duration silence = LinkChannelOptions{}.silence;
  /// Makes the hub; empty: net::make_hub.
  std::function<std::unique_ptr<net::Hub>(net::HubOptions, net::LinkHandler&)>
      make_hub = {};
};

/// What a process computes an offered job with.
struct MemberJob {
  JobParts parts;
  /// A place's execution class is a place in `classes`.
  std::vector<WorkerTraits> workers;
  std::vector<ClassRecord> classes;
  std::uint64_t value_budget = 0;  ///< see ProcessJoined
  ProcessMeans means = {};         ///< the same
  RestartOptions restart = {};
  /// The compute thread of a worker; empty: a ThreadExecutor.
  std::function<std::unique_ptr<Executor>(int worker)> make_executor = {};
  /// Called when the coordinator has ended a worker because its device, or its
  /// model, can do no more. Calls no member of this process.
  std::function<void()> on_device_lost = {};
};

/// How a membership ended.
struct MemberEnd {
  enum class Kind : std::uint8_t {
    over,     ///< nothing more is to be computed
    next,     ///< the prompts are encoded: who dials again is offered the job
    refused,  ///< by the coordinator, which says why
    lost,     ///< the link to it
    failed,   ///< this process can do no more
  };
  Kind kind = Kind::over;
  /// Why; of a job that is over: why it failed.
  std::optional<Failure> cause;
};

/// What a process is asked to do.
using Offered = std::variant<Offer, EncodingOffer>;

/// Lets this process compute for a job of another process: the side of the
/// worker. One membership at a time; afterwards another object joins again.
/// Thread: one, but for the stop tokens.
class CompanyMember final : private net::LinkHandler, public ModelHosts {
 public:
  /// Listens and dials. Errors: those of listen_at and dial_at.
  explicit CompanyMember(MemberSpec spec);
  ~CompanyMember() override;
  CompanyMember(const CompanyMember&) = delete;
  CompanyMember& operator=(const CompanyMember&) = delete;

  /// Waits for the job, or for its prompts, which come before it: `answer`
  /// them, and wait again. Nothing: there is none, see `end`. `on_stand_by` is
  /// called where the job has not begun. Errors:
  /// Errc::unreachable at the endpoint, also if nothing came within
  /// MemberSpec::patience; Errc::invalid_argument where it refuses,
  /// Errc::interrupted after a stop.
  [[nodiscard]] std::optional<Offered> wait_for_offer(
      std::stop_token stop, const std::function<void()>& on_stand_by = {});
  /// Whether the first process has asked it to wait for an offer, or to encode.
  [[nodiscard]] bool stands_by() const;
  /// How the membership ended, once it has.
  [[nodiscard]] std::optional<MemberEnd> end() const;
  /// Stops when it ends.
  [[nodiscard]] std::stop_token ended() const { return ended_.get_token(); }
  /// Of the answer to an EncodingOffer: a text, on the host. It is held until
  /// the first process has fetched it. Waits while more than 32 MiB are held.
  /// Errors: Errc::unreachable once the membership has ended, Errc::interrupted
  /// if it waits after a stop.
  void give_text(std::uint64_t text, const models::EncodedText& encoded,
                 std::stop_token stop = {});
  /// The end of the answer. Errors: Errc::unreachable as give_text.
  void answer(const std::variant<EncodingDone, EncodingRefused>& answer);
  // ModelHosts. Without PeerSpec the first process alone serves the model's
  // files, and this process serves none.
  [[nodiscard]] std::vector<int> model_givers() const override;
  void ask(int process, const ValueKey& key, const net::FetchOptions& options,
           const net::FetchTaker& taker) override;
  void give_model(std::shared_ptr<ModelGiver> giver) override;
  /// Whether this process serves files of the model.
  [[nodiscard]] bool gives_model() const;
  /// The values that the job's record names: conditions, and given initial
  /// latents. Errors: Errc::unreachable, Errc::corrupt_file, Errc::interrupted
  /// after a stop.
  [[nodiscard]] JobValues values_of(const JobRecord& job, std::stop_token stop);
  /// Says that this process cannot do the job, and leaves.
  void decline(const Failure& cause);
  /// Joins, and computes until the job is over or the link is lost. `drain`:
  /// gives back what has not begun, hands over what it alone holds, and leaves.
  /// `stop`: leaves at the next block.
  /// Who is not admitted within MemberSpec::patience takes the coordinator for
  /// lost. Errors: as run_job.
  [[nodiscard]] MemberEnd serve(MemberJob job, std::stop_token drain,
                                std::stop_token stop);

  [[nodiscard]] int process() const override { return process_; }
  /// Whether nothing more is to be computed. Thread: any.
  [[nodiscard]] bool is_over() const;

 private:
  void on_greeting(net::PeerId peer, const net::Greeting& greeting) override;
  void on_up(net::PeerId peer, const net::Greeting& greeting) override;
  void on_record(net::PeerId peer, std::span<const std::byte> record) override;
  void on_room(net::PeerId peer) override;
  void on_wanted(net::PeerId peer, net::WantId want,
                 std::string_view key) override;
  void on_lost(net::PeerId peer, const net::Loss& loss) override;

  [[nodiscard]] std::vector<std::string> listen();
  /// Asks the coordinator's process. The answer comes in any case, at the
  /// latest when the link is lost.
  [[nodiscard]] std::future<net::Fetched> ask_home(const ValueKey& key,
                                                   std::size_t most_bytes);
  /// The value that was asked for, when it has come. `what`: its name in
  /// errors. Errors: those of values_of.
  [[nodiscard]] Parcel take(std::future<net::Fetched>& asked,
                            const std::string& what,
                            const std::stop_token& stop) const;
  [[nodiscard]] bool is_coordinator(net::PeerId peer) const;
  void hear(wire::News news);
  [[nodiscard]] std::shared_ptr<JobContext> context_of(JobParts parts);
  [[nodiscard]] CoordinatorProxySpec proxy_spec(
      std::vector<ClassRecord> classes);
  [[nodiscard]] MemberEnd wait_for_end(const CoordinatorActor& coordinator,
                                       std::stop_token drain,
                                       std::stop_token stop);
  void report();
  void report_damage(int holder);
  /// To a worker of this process, or to its node.
  template <typename Message>
  void pass_on(Message message);
  void end_worker(const EndWorker& end);
  void finish(MemberEnd end);
  void leave(const std::string& sentence);

  MemberSpec spec_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  int process_ = 0;
  std::optional<Offered> offer_;
  std::map<std::uint64_t, Parcel> texts_;  ///< encoded, and not fetched
  JobRecord job_;                          ///< as offered
  bool stands_by_ = false;                 ///< an offer may take any time
  bool traces_ = false;
  std::function<void()> on_device_lost_;
  bool is_admitted_ = false;
  std::optional<MemberEnd> end_;
  std::stop_source ended_;
  struct Incarnation {
    std::uint32_t epoch = 0;
    WorkerActor actor;
  };
  ProcessActor node_;                   ///< while it serves
  std::map<int, Incarnation> workers_;  ///< the same; the newest of each
  const std::shared_ptr<net::InprocValueChannel> own_values_ =
      std::make_shared<net::InprocValueChannel>();
  std::shared_ptr<LinkChannel> channel_;
  std::shared_ptr<ModelGiver> giver_;
  ProcessReport reported_;  ///< the newest
  std::shared_ptr<Outbox> outbox_;
  Assembler assembler_;  ///< of the hub's thread
  net::PeerId peer_ = 0;
  /// Last, so it ends first: until then its thread calls the handler, which
  /// calls the hub.
  std::unique_ptr<net::Hub> hub_;
};

}  // namespace troupe::actors
