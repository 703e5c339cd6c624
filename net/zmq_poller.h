#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/core/clock.h"
#include "net/zmq_socket.h"

namespace troupe::net {

/// Waits for many sockets, at a cost that does not grow with their number.
///
/// ZeroMQ's descriptors do not say that there is something to read, but that a
/// socket's state may have changed; and any call to a socket may take that
/// signal away. So a socket that was used (`touch`) is asked once more before
/// anybody sleeps.
///
/// Thread: one, but for `wake`.
class ZmqPoller {
 public:
  /// Errors: Errc::io where the system refuses descriptors.
  ZmqPoller();
  ~ZmqPoller();
  ZmqPoller(const ZmqPoller&) = delete;
  ZmqPoller& operator=(const ZmqPoller&) = delete;

  /// `socket` stays where it is until `remove`.
  void add(std::uint64_t id, const ZmqSocket* socket);
  void remove(std::uint64_t id);
  void touch(std::uint64_t id);
  /// Ends the next `wait`, or the one under way. Thread: any.
  void wake() const;
  /// The sockets that can be read; waits for one, for `wake`, or until `until`
  /// (none: as long as it takes).
  [[nodiscard]] const std::vector<std::uint64_t>& wait(
      std::optional<TimePoint> until);

 private:
  struct Entry {
    const ZmqSocket* socket = nullptr;
    bool is_touched = false;
  };
  int epoll_ = -1;
  int event_ = -1;
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::vector<std::uint64_t> touched_;
  std::vector<std::uint64_t> readable_;
};

}  // namespace troupe::net
