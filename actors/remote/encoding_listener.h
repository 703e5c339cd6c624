#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/remote/client_service.h"
#include "actors/remote/encoding_answer.h"
#include "actors/remote/member_list.h"
#include "actors/remote/outbox.h"
#include "actors/session.h"
#include "actors/wire/codec.h"
#include "kernels/core/clock.h"
#include "net/link.h"

namespace troupe::actors {

struct EncodingListenerSpec {
  std::string version;  ///< of Troupe: another is refused
  net::HubOptions hub;
  std::string endpoint;
  std::string place = "--listen";  ///< where that was given, for errors
  /// Answers clients; it outlives this one. Null: they are strangers.
  ClientService* clients = nullptr;
  /// A process of which no text comes for so long is asked no more: the first
  /// takes as long as its encoder takes to be read.
  Duration silence = std::chrono::minutes(20);
  /// Makes the hub; empty: net::make_hub.
  std::function<std::unique_ptr<net::Hub>(net::HubOptions, net::LinkHandler&)>
      make_hub = {};
};

/// The processes of this and other hosts that come to a job before it begins,
/// and so before its CompanyListener stands at the same address. It listens
/// from the beginning. All stand by, until one is to encode the job's prompts.
/// One process at a time is asked, in the order in which they come. Who cannot
/// encode, or is lost, is named in the log, and the next one is asked. Thread:
/// any.
class EncodingListener final : private net::LinkHandler {
 public:
  /// Errors: those of listen_at.
  explicit EncodingListener(EncodingListenerSpec spec);
  /// Says that the job is over, unless `dismiss` was called, and waits until
  /// all have left, for a while.
  ~EncodingListener() override;
  EncodingListener(const EncodingListener&) = delete;
  EncodingListener& operator=(const EncodingListener&) = delete;

  /// Where it listens, with the port that was found.
  [[nodiscard]] const std::string& endpoint() const noexcept {
    return endpoint_;
  }
  /// Waits until the number of processes here is another than `known`, until
  /// the deadline (unset: there is none), or until a stop. The number.
  [[nodiscard]] std::size_t await_other_number(
      std::size_t known, std::optional<TimePoint> deadline,
      std::stop_token stop);
  /// The workers that the processes here have.
  [[nodiscard]] config::WorkerCount workers() const;

  /// From now on one of the processes is to encode these prompts. `shapes`: of
  /// the encoders. Once. Errors: Errc::corrupt_file as `check`.
  void ask_for(EncodingRecord record, std::vector<EncoderShape> shapes);
  /// Waits until a process has encoded all. Errors: Errc::interrupted.
  [[nodiscard]] EncodedElsewhere wait(std::stop_token stop);
  /// What came last is not used: the next process is asked. `wait` again.
  void refuse(const std::string& why);
  /// Asks all processes to dial again, and waits until those that are here have
  /// left, for a while. A process that comes later is asked the same.
  void dismiss();

  /// All that are here: each was asked to encode, or to stand by.
  [[nodiscard]] std::vector<Process> processes() const;
  /// Whether the prompts wait for a process that can encode them.
  [[nodiscard]] bool waits() const;
  /// The process that encodes the prompts; nothing: none does.
  [[nodiscard]] std::optional<int> encoder() const;

 private:
  struct Peer {
    Process known;
    config::WorkerCount workers;
    std::shared_ptr<Outbox> outbox;
    Assembler assembler;  ///< of the hub's thread
    bool is_up = false;
    bool has_declined = false;  ///< or was not heard of
  };
  using Processes = std::map<net::PeerId, Peer>;

  void on_greeting(net::PeerId peer, const net::Greeting& greeting) override;
  void on_up(net::PeerId peer, const net::Greeting& greeting) override;
  void on_record(net::PeerId peer, std::span<const std::byte> record) override;
  void on_room(net::PeerId peer) override;
  void on_wanted(net::PeerId peer, net::WantId want,
                 std::string_view key) override;
  void on_other_key(const std::string& address) override;
  void on_lost(net::PeerId peer, const net::Loss& loss) override;

  // With the lock:
  void hear(net::PeerId peer, Peer& process, wire::News news);
  void finish();
  void fetched(net::PeerId peer, std::uint64_t text, const net::Fetched& its);
  void breach(net::PeerId peer, const Error& error);
  void ask_next();
  [[nodiscard]] std::size_t num_here() const;
  void give_up(const Process& asked, const std::string& why);
  void tell(const Peer& process, const wire::News& news) const;
  void remove(net::PeerId peer, const std::string& why);

  EncodingListenerSpec spec_;
  std::string endpoint_;
  mutable std::mutex mutex_;
  std::condition_variable_any news_;
  Processes processes_;
  int num_known_ = 0;
  std::optional<EncodingRecord> record_;  ///< that is to be encoded
  std::vector<EncoderShape> shapes_;      ///< of its encoders
  /// Who encodes, or has encoded.
  std::optional<net::PeerId> asked_;
  std::optional<EncodingAnswer> answer_;  ///< of who encodes now
  TimePoint asked_at_{};
  TimePoint heard_at_{};
  std::optional<EncodedElsewhere> result_;
  bool is_dismissed_ = false;
  bool is_over_ = false;
  /// Last, so it ends first: until then its thread calls the handler, which
  /// calls the hub.
  std::unique_ptr<net::Hub> hub_;
};

}  // namespace troupe::actors
