#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "actors/job_status.h"
#include "kernels/core/clock.h"
#include "net/link.h"

namespace troupe::actors {

struct ClientSpec {
  std::string version;   ///< of Troupe
  std::string name;      ///< for people: host and process
  net::HubOptions hub;   ///< with the role kClientRole or kOwnerRole
  std::string endpoint;  ///< where the job listens
  std::string place;     ///< where that was given, for errors
  net::DialOptions dial;
  /// Makes the hub; empty: net::make_hub.
  std::function<std::unique_ptr<net::Hub>(net::HubOptions, net::LinkHandler&)>
      make_hub = {};
};

/// Asks a job of another process: see ClientService. Thread: one, but for the
/// stop token.
class JobClient final : private net::LinkHandler {
 public:
  /// Dials. Errors: those of dial_at.
  explicit JobClient(ClientSpec spec);
  ~JobClient() override;
  JobClient(const JobClient&) = delete;
  JobClient& operator=(const JobClient&) = delete;

  /// Waits for the answer; nothing: the job has ended. Errors:
  /// Errc::unreachable where nobody listens, the link is lost or no answer came
  /// within `patience`; Errc::invalid_argument where the job refuses;
  /// Errc::interrupted after a stop; those that the job answers with.
  [[nodiscard]] std::optional<ClientAnswer> ask(const ClientQuestion& question,
                                                Duration patience,
                                                std::stop_token stop);

 private:
  void on_greeting(net::PeerId peer, const net::Greeting& greeting) override;
  void on_up(net::PeerId peer, const net::Greeting& greeting) override;
  void on_record(net::PeerId peer, std::span<const std::byte> record) override;
  void on_room(net::PeerId /*peer*/) override {}
  void on_wanted(net::PeerId peer, net::WantId want,
                 std::string_view key) override;
  void on_lost(net::PeerId peer, const net::Loss& loss) override;

  [[nodiscard]] bool has_ended(const std::unique_lock<std::mutex>& lock) const;

  ClientSpec spec_;
  std::mutex mutex_;
  std::condition_variable_any news_;
  bool is_up_ = false;
  bool is_over_ = false;  ///< the job said good-bye
  std::optional<Failure> failure_;
  std::deque<ClientAnswer> answers_;
  net::PeerId peer_ = 0;
  /// Last: its thread calls the handler.
  std::unique_ptr<net::Hub> hub_;
};

}  // namespace troupe::actors
