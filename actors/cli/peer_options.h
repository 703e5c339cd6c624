#pragma once

#include <optional>
#include <string>

#include "actors/remote/company_member.h"
#include "config/config.h"

namespace troupe::actors {

/// A new folder in the system's folder for temporary files that nobody else may
/// enter (mode 0700): a local socket lies there. It is removed with the object.
/// If the process is killed before that, the next SocketFolder of the same user
/// removes it: the folder's lock (flock) says that its process lives.
/// Thread: one.
class SocketFolder {
 public:
  /// Empty: none is held.
  SocketFolder() = default;
  /// Without one, `path()` is empty: a folder could not be made.
  [[nodiscard]] static SocketFolder make();
  SocketFolder(SocketFolder&& other) noexcept;
  SocketFolder& operator=(SocketFolder&& other) noexcept;
  ~SocketFolder();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Where a hub is to listen. Precondition: there is a folder.
  [[nodiscard]] std::string endpoint() const;

 private:
  std::string path_;
  int folder_ = -1;  ///< open, and locked
};

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
