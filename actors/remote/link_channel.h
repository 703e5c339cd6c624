#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/value_channel.h"
#include "net/link.h"

namespace troupe::actors {

/// A value as a link carries it: an outline, then the elements of each tensor,
/// from where they lie. Thread: any.
[[nodiscard]] net::Value to_link(const Parcel& parcel);
/// Shares what arrived. Errors: Errc::corrupt_file for what is no parcel.
/// Thread: any.
[[nodiscard]] Parcel from_link(const net::Value& value);

/// A question for a value, as the key of a link: the process that holds it, and
/// its name.
[[nodiscard]] std::string key_of(int holder, const ValueName& name);
[[nodiscard]] std::optional<std::pair<int, ValueName>> question_of(
    std::string_view key);

/// The key of a job's given latents, at its coordinator's process: a parcel of
/// one tensor.
inline constexpr std::string_view kLatentsKey = "init-latents";

/// The values of other processes, over links. A process without a link of its
/// own is asked through the coordinator's, which passes question and answer on.
/// Thread: any.
class LinkChannel final : public ValueChannel {
 public:
  /// own: answers for this process, whatever number it is asked by.
  /// relay: who is asked for a process without a link; none: it has nothing.
  explicit LinkChannel(std::shared_ptr<ValueChannel> own,
                       std::optional<int> relay = {});

  /// From now on, as the process with this number. The hub stays until `close`.
  void open(net::Hub& hub, int own_process);
  /// Nobody has anything any more, and nobody is answered.
  void close();
  /// Where a process is asked from now on.
  void set_peer(int process, net::PeerId peer);
  void remove_peer(int process);

  void get(int holder, const ValueName& name, Taker taker) override;
  /// A peer asks (LinkHandler::on_wanted). False for a key that is no question.
  [[nodiscard]] bool answer(net::WantId want, std::string_view key);

  /// Bytes of tensors that this process has given to others.
  [[nodiscard]] std::uint64_t bytes_given() const;
  /// And fetched from others.
  [[nodiscard]] std::uint64_t bytes_fetched() const;

 private:
  /// Answers may come after the channel's end.
  struct State {
    std::mutex mutex;
    net::Hub* hub = nullptr;
    int own_process = 0;
    std::map<int, net::PeerId> peers;
    std::uint64_t bytes_given = 0;
    std::uint64_t bytes_fetched = 0;
  };

  const std::shared_ptr<ValueChannel> own_;
  const std::optional<int> relay_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace troupe::actors
