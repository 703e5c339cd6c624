#pragma once

#include <optional>

#include "actors/cli/socket_folder.h"
#include "actors/remote/company_member.h"
#include "config/config.h"

namespace troupe::actors {

/// Refuses what --bind, --advertise and --no-peer cannot mean, before work
/// starts. Errors: Errc::invalid_argument.
void check_peers(const config::Config& config);

/// Where a worker listens for the others of its job, as --bind, --advertise and
/// --no-peer say. The default follows the coordinator's address: a socket in a
/// new folder, which is removed with the object; the loopback interface; or,
/// with keys, any interface.
class PeerPlace {
 public:
  /// Errors: those of check_peers and of net::read_keys.
  explicit PeerPlace(const config::Config& config);

  [[nodiscard]] const std::optional<PeerSpec>& spec() const noexcept {
    return spec_;
  }

 private:
  std::optional<PeerSpec> spec_;
  SocketFolder folder_;  ///< of its socket, if nobody named one
};

}  // namespace troupe::actors
