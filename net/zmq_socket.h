#pragma once

#include <zmq.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "net/link.h"
#include "net/link_frame.h"

// ZeroMQ's sockets, for this folder. Only sources net/zmq* include this header.

namespace troupe::net {

/// From a connection to the end of its handshake; then ZeroMQ ends it.
inline constexpr std::chrono::milliseconds kMostHandshake =
    std::chrono::seconds(2);

/// A ZeroMQ context; it ends with its last owner.
using ZmqContext = std::shared_ptr<void>;
/// Raises the process's limit of descriptors to its hard limit, too.
[[nodiscard]] ZmqContext make_zmq_context();
/// The descriptors that this process may have.
[[nodiscard]] std::size_t most_descriptors();

class ZmqMessage {
 public:
  ZmqMessage() noexcept { zmq_msg_init(&message_); }
  ~ZmqMessage() { zmq_msg_close(&message_); }
  ZmqMessage(const ZmqMessage&) = delete;
  ZmqMessage& operator=(const ZmqMessage&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    auto* message = const_cast<zmq_msg_t*>(&message_);
    return {static_cast<const std::byte*>(zmq_msg_data(message)),
            zmq_msg_size(message)};
  }
  [[nodiscard]] zmq_msg_t* get() noexcept { return &message_; }

 private:
  zmq_msg_t message_;
};

/// What `ZmqSocket::receive` fills.
struct ZmqFrame {
  ZmqMessage message;
  std::string route;  ///< of a router: which connection it came by
  /// All of the message, valid until the next one; empty if it has several
  /// parts, as no frame has.
  std::span<const std::byte> bytes;

  /// The user that the authenticator named; empty without keys.
  [[nodiscard]] std::string user();
  /// The peer's address, where the transport has one.
  [[nodiscard]] std::string address();
  /// The descriptor of the frame's connection, which may be closed since. -1
  /// for a frame from within this process.
  [[nodiscard]] int descriptor();
};

/// What a monitor tells.
struct ZmqEvent {
  int kind = 0;   ///< ZMQ_EVENT_…
  int value = 0;  ///< a descriptor, or what zmq_socket_monitor says
};

/// Thread: one; it may go to another thread with a full fence between.
class ZmqSocket {
 public:
  /// `type`: ZMQ_ROUTER, … Errors: Errc::io where the system refuses one.
  ZmqSocket(const ZmqContext& context, int type);
  ZmqSocket(ZmqSocket&& other) noexcept;
  ZmqSocket& operator=(ZmqSocket&& other) noexcept;
  ~ZmqSocket();

  void set(int option, int value);
  void set(int option, std::int64_t value);
  void set(int option, std::span<const std::byte> bytes);
  /// What every socket of a link has. A tcp connection whose bytes arrive
  /// nowhere for `lease` is made again.
  void set_link_options(Duration lease);
  /// Errors: Errc::io.
  void bind(const std::string& endpoint);
  /// Errors: Errc::invalid_argument.
  void connect(const std::string& endpoint);
  [[nodiscard]] std::string last_endpoint() const;

  /// To be watched for reading: an event means that `is_readable` may have
  /// changed.
  [[nodiscard]] int descriptor() const;
  [[nodiscard]] bool is_readable() const;

  /// Sends a frame, of a router to `route`. The payload of a large chunk is not
  /// copied.
  /// Returns false if nobody can take it now: it is dropped.
  bool send(const std::string& route, const FrameHead& head,
            const SharedBytes& payload);
  /// Receives what is there. Returns whether something was.
  bool receive(ZmqFrame& frame);

  /// From now on a socket tells what becomes of this one's connections.
  [[nodiscard]] ZmqSocket monitor(int events);
  /// To be called before the monitor is closed, or ZeroMQ's own thread waits
  /// for the monitor.
  void stop_monitor();
  /// The next event of a monitor, if there is one.
  [[nodiscard]] std::optional<ZmqEvent> receive_event();

  /// One whole message of several parts: at most `most` parts of at most 255
  /// bytes. Empty if there is no message, or if the message is larger.
  [[nodiscard]] std::optional<std::vector<std::string>> receive_parts(
      std::size_t most);
  void send_parts(const std::vector<std::string>& parts);

 private:
  [[nodiscard]] bool send_message(const std::string& route,
                                  ZmqMessage& message);
  [[nodiscard]] bool receive_part(ZmqMessage& part);
  [[nodiscard]] bool has_more() const;
  void skip_rest();

  ZmqContext context_;
  void* socket_ = nullptr;
  bool is_router_ = false;
};

}  // namespace troupe::net
