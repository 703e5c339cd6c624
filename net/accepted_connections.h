#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "kernels/core/clock.h"
#include "net/link.h"
#include "net/link_frame.h"

namespace troupe::net {

/// The connections that a hub's listeners have accepted, by descriptor, and
/// whose they are. A descriptor names one connection from `accept` to `close`.
///
/// A connection by which no peer's frame has come is a stranger's. There are at
/// most so many of them. Beyond that the oldest is ended if it had time for a
/// handshake, otherwise the new one: so nobody who waits can keep others out
/// for long, and in a crowd those that came first get in. Thread: one.
class AcceptedConnections {
 public:
  struct Owner {
    PeerId peer = 0;  ///< 0: a stranger's
    Lane lane{};

    friend bool operator==(const Owner&, const Owner&) = default;
  };

  explicit AcceptedConnections(std::size_t most_strangers)
      : most_strangers_(most_strangers) {}

  /// A stranger's connection.
  void accept(int descriptor, TimePoint now);
  /// Returns whose it was.
  [[nodiscard]] std::optional<Owner> close(int descriptor);
  /// A frame of this lane came by it. Returns whose it was before; none if it
  /// is closed: the frame was on its way before that.
  [[nodiscard]] std::optional<Owner> take(int descriptor, const Owner& owner);
  /// It is a stranger's again, if it is this owner's.
  void give_back(int descriptor, const Owner& owner, TimePoint now);
  /// Ends strangers' connections beyond the most there may be. To be called
  /// when nothing waits to be told by `accept` and `close`.
  void shed(TimePoint now);

  [[nodiscard]] std::size_t num_strangers() const { return strangers_.size(); }

 private:
  struct Connection {
    Owner owner;
    std::uint64_t cookie = 0;  ///< the kernel's number of the socket
    std::uint64_t age = 0;     ///< of a stranger: its key in strangers_
  };
  struct Stranger {
    int descriptor = -1;
    TimePoint since;
  };

  void add_stranger(int descriptor, Connection& connection, TimePoint now);
  void end(int descriptor) const;

  std::size_t most_strangers_;
  std::unordered_map<int, Connection> connections_;
  std::map<std::uint64_t, Stranger> strangers_;  ///< oldest first
  std::uint64_t next_age_ = 1;
};

}  // namespace troupe::net
