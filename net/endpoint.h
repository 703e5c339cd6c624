#pragma once

#include <string>
#include <string_view>

namespace troupe::net {

/// The place that errors of links name.
inline constexpr std::string_view kLinkPlace = "link";

enum class Transport : unsigned char { tcp, ipc, inproc };

/// Where a hub listens or whom it dials.
struct Endpoint {
  Transport transport{};
  std::string text;   ///< whole, as ZeroMQ takes it
  std::string where;  ///< host, path or name
  std::string port;   ///< of tcp: digits, "*" for any
};

/// "tcp://HOST:PORT", "ipc://PATH", "inproc://NAME". Errors:
/// Errc::invalid_argument, in one line. Thread: any.
[[nodiscard]] Endpoint parse_endpoint(std::string_view text);

/// Whether other machines can reach the endpoint.
[[nodiscard]] bool is_public(const Endpoint& endpoint);

/// Whether the host of a tcp endpoint is known by its name. Asks the system,
/// which may take seconds. Errors: Errc::unreachable.
void check_host(const Endpoint& endpoint);

/// Checks that the host of a tcp endpoint is an address or an interface: ZeroMQ
/// listens at no host names. Asks the system what a name stands for, which may
/// take seconds. Errors: Errc::invalid_argument with the address of the name.
void check_is_address(const Endpoint& endpoint);

/// Makes the folder of an ipc endpoint, and those above it, with mode 0700
/// where they are missing. Errors:
/// Errc::invalid_argument if it is not ours or others may enter it, Errc::io.
void prepare_folder(const Endpoint& endpoint);

/// Holds the path of an ipc endpoint for this process: ZeroMQ itself would take
/// the endpoint from the process that listens on it, and would remove any other
/// file. The lock is a file beside the socket, and ends with the process. This
/// object removes socket and lock, unless another process owns them by now.
class PathLock {
 public:
  PathLock() = default;
  /// Errors: Errc::io if another process holds it; Errc::invalid_argument if a
  /// file is there that is no socket.
  explicit PathLock(const Endpoint& endpoint);
  PathLock(PathLock&& other) noexcept;
  PathLock& operator=(PathLock&& other) noexcept;
  ~PathLock();

 private:
  [[nodiscard]] bool is_in_place() const;

  std::string socket_;
  int file_ = -1;
};

}  // namespace troupe::net
