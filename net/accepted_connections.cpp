#include "net/accepted_connections.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <iterator>
#include <utility>

namespace troupe::net {
namespace {

/// A handshake takes five round trips and a millisecond of computing. When many
/// connections come at once, a handshake waits for earlier handshakes.
constexpr Duration kHandshakeTime = std::chrono::milliseconds(250);

/// A number that no other socket of this system has had; 0 if it is none.
[[nodiscard]] std::uint64_t cookie_of(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0
             ? cookie
             : 0;
}

/// "10.0.0.7"; empty: it has ended, or is no tcp.
[[nodiscard]] std::string peer_address(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) !=
          0 ||
      address.ss_family == AF_UNIX ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size,
                  host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return host.data();
}

}  // namespace

void AcceptedConnections::accept(int descriptor, TimePoint now) {
  Connection connection{.cookie = cookie_of(descriptor),
                        .address = peer_address(descriptor)};
  add_unidentified(descriptor, connection, now);
  connections_.insert_or_assign(descriptor, std::move(connection));
}

void AcceptedConnections::add_unidentified(int descriptor,
                                           Connection& connection,
                                           TimePoint now) {
  connection.owner = {};
  connection.age = next_age_++;
  unidentified_.emplace(connection.age, Unidentified{descriptor, now});
}

std::string AcceptedConnections::address_of(int descriptor) const {
  const auto found = connections_.find(descriptor);
  return found == connections_.end() ? std::string() : found->second.address;
}

std::optional<AcceptedConnections::Owner> AcceptedConnections::close(
    int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) {
    return std::nullopt;
  }
  const Connection connection = found->second;
  unidentified_.erase(connection.age);
  connections_.erase(found);
  return connection.owner;
}

std::optional<AcceptedConnections::Owner> AcceptedConnections::take(
    int descriptor, const Owner& owner) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) {
    return std::nullopt;
  }
  unidentified_.erase(std::exchange(found->second.age, 0));
  return std::exchange(found->second.owner, owner);
}

void AcceptedConnections::give_back(int descriptor, const Owner& owner,
                                    TimePoint now) {
  const auto found = connections_.find(descriptor);
  if (found != connections_.end() && found->second.owner == owner) {
    add_unidentified(descriptor, found->second, now);
  }
}

void AcceptedConnections::shed(TimePoint now) {
  while (unidentified_.size() > most_unidentified_) {
    auto one = unidentified_.begin();
    if (now - one->second.since < kHandshakeTime) {
      one = std::prev(unidentified_.end());
    }
    end(one->second.descriptor);
    unidentified_.erase(one);  // `close` follows
  }
}

/// Another thread owns the descriptor and may have closed it meanwhile; then
/// the number may name another file. A copy of the descriptor stays, and the
/// cookie shows whether the copy is the accepted connection.
void AcceptedConnections::end(int descriptor) const {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy >= 0) {
    const std::uint64_t cookie = connections_.at(descriptor).cookie;
    if (cookie != 0 && cookie_of(copy) == cookie) {
      shutdown(copy, SHUT_RDWR);
    }
    ::close(copy);
  }
}

}  // namespace troupe::net
