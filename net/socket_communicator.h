#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/communicator.h"
#include "net/link.h"

// The communicator of processes, on one host or several. It has sockets and a
// thread of its own, so no record, beat or value of a link waits for it.

namespace troupe::net {

/// Where a rank listens.
struct RankAddress {
  std::string endpoint;
  /// Its public key; needed if there are keys.
  std::optional<PublicKey> key = {};
};

struct SocketOptions {
  int rank = 0;
  /// Of all ranks. That of this rank is not used.
  std::vector<RankAddress> addresses;
  /// Drawn at random for each forming of a group, the same at all its ranks.
  /// Messages of another epoch are dropped.
  std::uint64_t epoch = 0;
};

/// A rank that listens before it knows the endpoints of other ranks. The caller
/// tells each rank the endpoints of all. Thread: one.
class RankListener {
 public:
  virtual ~RankListener() = default;
  /// With its port.
  [[nodiscard]] virtual const std::string& endpoint() const = 0;
  /// The rank's communicator, once. Does not wait for the others: the first
  /// operation does, until its deadline. The communicator copies what is sent;
  /// up to 4 MiB to each rank lie at the receiver before it takes them. A rank
  /// whose process ended is noticed within a tenth of a second, one whose host
  /// went silent by the deadline. The destructor gives the last messages up to
  /// half a second. Memory: the host's. Errors: Errc::invalid_argument,
  /// Errc::io.
  [[nodiscard]] virtual std::unique_ptr<Communicator> join(
      const SocketOptions& options) = 0;
};

/// "tcp://127.0.0.1:*" and "ipc:///run/user/7/troupe/a", with the rules of
/// `Hub`; inproc_communicator.h is for threads. keys: whose are allowed to
/// send. Errors: as Hub::listen.
[[nodiscard]] std::unique_ptr<RankListener> listen_as_rank(
    const std::string& endpoint, std::optional<LinkKeys> keys = {});

}  // namespace troupe::net
