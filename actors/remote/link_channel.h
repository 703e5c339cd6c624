#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actors/remote/link_values.h"
#include "actors/session.h"
#include "kernels/core/value_channel.h"
#include "net/link.h"

namespace troupe::actors {

struct LinkChannelOptions {
  /// Who is asked for a process without a link; none: it has nothing. A process
  /// that relays has none.
  std::optional<int> relay = {};
  /// How other processes are dialled.
  net::DialOptions dial = {};
  /// How long nothing may come of a value that was asked for. It may not be
  /// made yet, and one pass of a large network takes minutes on a CPU: so this
  /// is longer than any pass. Then it is asked for through the relay, or has
  /// gone. A relay brings all of it at once, and is waited for twice as long.
  Duration silence = std::chrono::minutes(20);
  /// What came from a process was damaged. Where there is a relay, it is called
  /// when a value has come well another way, once for each process; at once for
  /// what the relay gave. Called on the hub's thread.
  std::function<void(int process, const std::string& what)> on_damage = {};
  /// Who holds a value besides `holder`, from whom it came damaged. Calls
  /// `then` once, on any thread. Of a channel that relays.
  std::function<void(const ValueName& name, int holder,
                     std::function<void(std::optional<int>)> then)>
      find_other = {};
};

/// The values of other processes, over links. PeerRoutes decides whether one is
/// asked over a link of its own or through the coordinator's process. What was
/// lost with a link, came damaged or does not come is asked for once more
/// through that. What came damaged, that asks of another holder if it can.
/// Thread: any.
class LinkChannel final : public ValueChannel {
 public:
  /// own: answers for this process, whatever number it is asked by.
  explicit LinkChannel(std::shared_ptr<ValueChannel> own,
                       LinkChannelOptions options = {});
  ~LinkChannel() override;
  LinkChannel(const LinkChannel&) = delete;
  LinkChannel& operator=(const LinkChannel&) = delete;

  /// From now on, as the process with this number. `tokens`: by which others
  /// know it. The hub stays until `close`.
  void open(net::Hub& hub, int own_process, PeerTokens tokens = {});
  /// Nobody has anything any more, and nobody is answered.
  void close();
  /// Where a process is asked from now on.
  void set_peer(int process, net::PeerId peer);
  /// It is no more.
  void remove_peer(int process);

  // What a hub says of peers that are other workers' processes.
  /// Where one can be reached, or that it has left.
  void told(const PeerAddress& address);
  /// Lets in processes of this job.
  void knock(net::Hub& hub, net::PeerId peer, const net::Greeting& greeting);
  void came_up(net::PeerId peer, const net::Greeting& greeting);
  void lost(net::PeerId peer, const std::string& why);

  void get(int holder, const ValueName& name, Taker taker) override;
  /// A peer asks (LinkHandler::on_wanted). False for a key that is no question,
  /// and for the value of another process where nothing is relayed.
  [[nodiscard]] bool answer(net::WantId want, std::string_view key);

  /// Bytes of tensors that this process has given to others.
  [[nodiscard]] std::uint64_t bytes_given() const;
  /// And fetched from others.
  [[nodiscard]] std::uint64_t bytes_fetched() const;
  /// Of those given: what came from another process.
  [[nodiscard]] std::uint64_t bytes_relayed() const;

 private:
  class State;

  /// Answers may come after the channel's end.
  const std::shared_ptr<State> state_;
};

}  // namespace troupe::actors
