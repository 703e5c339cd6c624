#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "kernels/core/clock.h"
#include "net/link.h"
#include "net/link_frame.h"

namespace troupe::net {

/// The connections that a hub's listeners have accepted, by descriptor, with
/// their owners. A descriptor names one connection from `accept` to `close`.
///
/// A connection is unidentified until a peer's frame arrives on it. The number
/// of unidentified connections is limited. Beyond the limit, the oldest is
/// ended if it had time for a handshake, otherwise the newest is ended. So an
/// idle connection cannot keep peers out for long, and when many connections
/// come at once, the first get in. Thread: one.
class AcceptedConnections {
 public:
  struct Owner {
    PeerId peer = 0;  ///< 0: unidentified
    Lane lane{};

    friend bool operator==(const Owner&, const Owner&) = default;
  };

  explicit AcceptedConnections(std::size_t most_unidentified)
      : most_unidentified_(most_unidentified) {}

  /// A new connection, unidentified.
  void accept(int descriptor, TimePoint now);
  /// The dialling host of a tcp connection, "10.0.0.7"; else empty.
  [[nodiscard]] std::string address_of(int descriptor) const;
  /// Returns the last owner.
  [[nodiscard]] std::optional<Owner> close(int descriptor);
  /// A frame of the owner's lane arrived on the connection. Returns the owner
  /// before; none if the connection is closed (the frame was sent before the
  /// close).
  [[nodiscard]] std::optional<Owner> take(int descriptor, const Owner& owner);
  /// The connection is unidentified again, if `owner` still has it.
  void give_back(int descriptor, const Owner& owner, TimePoint now);
  /// Ends unidentified connections beyond the limit. To be called when all
  /// opened and closed connections have been reported by `accept` and `close`.
  void shed(TimePoint now);

  [[nodiscard]] std::size_t num_unidentified() const {
    return unidentified_.size();
  }

 private:
  struct Connection {
    Owner owner;
    std::uint64_t cookie = 0;  ///< the kernel's number of the socket
    std::uint64_t age = 0;     ///< key in unidentified_; 0: identified
    std::string address;
  };
  struct Unidentified {
    int descriptor = -1;
    TimePoint since;
  };

  void add_unidentified(int descriptor, Connection& connection, TimePoint now);
  void end(int descriptor) const;

  std::size_t most_unidentified_;
  std::unordered_map<int, Connection> connections_;
  std::map<std::uint64_t, Unidentified> unidentified_;  ///< oldest first
  std::uint64_t next_age_ = 1;
};

}  // namespace troupe::net
