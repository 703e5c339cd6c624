#pragma once

#include <optional>
#include <unordered_map>

#include "net/link.h"
#include "net/link_frame.h"

namespace troupe::net {

/// The connections that a hub's listeners have accepted, by descriptor, and
/// whose they are. A descriptor names one connection from `accept` to `close`.
/// Thread: one.
class AcceptedConnections {
 public:
  struct Owner {
    PeerId peer = 0;  ///< 0: a stranger's
    Lane lane{};

    friend bool operator==(const Owner&, const Owner&) = default;
  };

  /// A stranger's connection.
  void accept(int descriptor);
  /// Returns whose it was.
  [[nodiscard]] std::optional<Owner> close(int descriptor);
  /// A frame of this lane came by it. Returns whose it was before; none if it
  /// is closed: the frame was on its way before that.
  [[nodiscard]] std::optional<Owner> take(int descriptor, const Owner& owner);
  /// It is a stranger's again, if it is this owner's.
  void give_back(int descriptor, const Owner& owner);

 private:
  std::unordered_map<int, Owner> owners_;
};

}  // namespace troupe::net
