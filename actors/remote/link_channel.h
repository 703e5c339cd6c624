#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/remote/link_values.h"
#include "actors/session.h"
#include "kernels/core/value_channel.h"
#include "net/link.h"

namespace troupe::actors {

struct LinkChannelOptions {
  /// The process that relays questions to processes without a link; none: such
  /// questions get no value. The relay itself has none.
  std::optional<int> relay = {};
  /// How other processes are dialled.
  net::DialOptions dial = {};
  /// How long nothing may come of a value that was asked for. It may not be
  /// made yet, and one pass of a large network takes minutes on a CPU: so this
  /// is longer than any pass. Then it is asked for through the relay, or has
  /// gone. A relay brings all of it at once, and is waited for twice as long.
  Duration silence = std::chrono::minutes(20);
  /// A value came damaged from `process`. With a relay, it is called once for
  /// each process, when a value of that process has come whole by another way;
  /// at once for values of the relay itself. Thread: the hub's.
  std::function<void(int process, const std::string& what)> on_damage = {};
  /// Finds another process than `holder` that holds a value, because the value
  /// came damaged from `holder`. Calls `then` once, on any thread. Only a
  /// channel that relays has it.
  std::function<void(const ValueName& name, int holder,
                     std::function<void(std::optional<int>)> then)>
      find_other = {};
};

/// The values of other processes, over links. PeerRoutes decides whether one is
/// asked over a link of its own or through the coordinator's process. A value
/// that was lost with a link, came damaged or does not come is asked for once
/// more through the coordinator's process. The coordinator's process asks
/// another holder for a damaged value, if it knows one.
/// Thread: any.
class LinkChannel final : public ValueChannel {
 public:
  /// own: answers questions for the values of this process.
  explicit LinkChannel(std::shared_ptr<ValueChannel> own,
                       LinkChannelOptions options = {});
  ~LinkChannel() override;
  LinkChannel(const LinkChannel&) = delete;
  LinkChannel& operator=(const LinkChannel&) = delete;

  /// From now on, as the process with this number. `tokens`: by which others
  /// know it. The hub stays until `close`.
  void open(net::Hub& hub, int own_process, PeerTokens tokens = {});
  /// The job whose values these are: hash_of its record.
  void set_job(std::uint64_t job);
  /// Ends the channel: questions that wait for a link get no value, and neither
  /// do later ones.
  void close();
  /// Where a process is asked from now on.
  void set_peer(int process, net::PeerId peer);
  /// The process has left.
  void remove_peer(int process);

  // What a hub says of peers that are other workers' processes.
  /// Where a worker's process can be dialled, or that it has left.
  void set_address(const PeerAddress& address);
  /// Lets in processes of this job.
  void accept(net::Hub& hub, net::PeerId peer, const net::Greeting& greeting);
  void came_up(net::PeerId peer, const net::Greeting& greeting);
  void lost(net::PeerId peer, const std::string& why);

  void get(int holder, const ValueName& name, Taker taker) override;
  /// Asks a process for something else than a value of the job. Such a question
  /// is not relayed: without a link, and if none can be made, it fails.
  void ask(int process, const ValueKey& key, const net::FetchOptions& options,
           const net::FetchTaker& taker);
  /// Measures the link from a process: fetches a value of one byte, one of
  /// 64 KiB, and, where the round trip is so long that 64 KiB do not show the
  /// speed, one of 1 MiB. Takes some round trips on a fast link, and at most
  /// kProbePatience for each value: a later value counts as if it came then.
  /// Nothing: the process did not answer. `then` is called once, on the thread
  /// of `ask`'s.
  void measure(int process,
               std::function<void(const std::optional<LinkPace>&)> then);
  static constexpr Duration kProbePatience = std::chrono::seconds(1);
  /// Other workers' processes that give files of the model.
  [[nodiscard]] std::vector<int> model_givers() const;
  /// A peer asks (LinkHandler::on_wanted). False for what no channel has, for a
  /// value of another job, and for one of another process where nothing is
  /// relayed.
  [[nodiscard]] bool answer(net::WantId want, const ValueKey& key);

  /// Bytes of tensors that this process has sent to other processes.
  [[nodiscard]] std::uint64_t bytes_given() const;
  /// And fetched from others.
  [[nodiscard]] std::uint64_t bytes_fetched() const;
  /// Part of bytes_given: values that came from another process.
  [[nodiscard]] std::uint64_t bytes_relayed() const;

 private:
  class State;

  /// Answers may come after the channel's end.
  const std::shared_ptr<State> state_;
};

}  // namespace troupe::actors
