#include "net/zmq_socket.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "net/endpoint.h"

namespace troupe::net {
namespace {

/// A frame queued in ZeroMQ is a reference to its bytes. What is queued is
/// bounded by our own credit; this bounds what a hostile peer can ask for.
constexpr int kMostQueued = 16'384;
/// Messages of one connection that wait here to be read: beyond that the
/// sender's own queue grows.
constexpr int kMostUnread = 64;
constexpr int kMostSockets = 16'384;
/// Of connections that the system holds until they are accepted. ZeroMQ's
/// default is 100: a crowd that comes at once would wait a second each.
constexpr int kBacklog = 1024;
/// For the last frames of a socket that is closed.
constexpr int kLingerMs = 200;
/// Between two attempts to reconnect, at first: a peer must be back within its
/// grace (HubOptions::reconnect_grace). It doubles.
constexpr int kReconnectMs = 5;
constexpr int kMostReconnectMs = 500;

[[noreturn]] void fail(Errc code, const std::string& what) {
  throw Error(code, kLinkPlace, what + ": " + zmq_strerror(zmq_errno()));
}

void check_memory(int result) {
  if (result != 0) {
    throw std::bad_alloc();
  }
}

void let_go(void* /*data*/, void* owner) {
  delete static_cast<std::shared_ptr<std::byte>*>(owner);
}

[[nodiscard]] std::string property(ZmqMessage& message, const char* name) {
  const char* value = zmq_msg_gets(message.get(), name);
  return value == nullptr ? std::string{} : std::string(value);
}

}  // namespace

ZmqContext make_zmq_context() {
  ZmqContext context(zmq_ctx_new(), [](void* it) {
    while (zmq_ctx_term(it) != 0 && zmq_errno() == EINTR) {
    }
  });
  if (!context) {
    fail(Errc::out_of_memory, "ZeroMQ does not start");
  }
  // Each dialled peer has seven. The default is 1,023.
  zmq_ctx_set(context.get(), ZMQ_MAX_SOCKETS, kMostSockets);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return context;
}

std::size_t most_descriptors() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

std::string ZmqFrame::user() { return property(message, "User-Id"); }
std::string ZmqFrame::address() { return property(message, "Peer-Address"); }
int ZmqFrame::descriptor() { return zmq_msg_get(message.get(), ZMQ_SRCFD); }

ZmqSocket::ZmqSocket(const ZmqContext& context, int type)
    : context_(context),
      socket_(zmq_socket(context.get(), type)),
      is_router_(type == ZMQ_ROUTER) {
  if (socket_ == nullptr) {
    fail(Errc::io, "no more sockets");
  }
}

ZmqSocket::ZmqSocket(ZmqSocket&& other) noexcept
    : context_(std::move(other.context_)),
      socket_(std::exchange(other.socket_, nullptr)),
      is_router_(other.is_router_) {}

ZmqSocket& ZmqSocket::operator=(ZmqSocket&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(socket_, other.socket_);
  std::swap(is_router_, other.is_router_);
  return *this;
}

ZmqSocket::~ZmqSocket() {
  if (socket_ != nullptr) {
    zmq_close(socket_);
  }
}

void ZmqSocket::set(int option, int value) {
  if (zmq_setsockopt(socket_, option, &value, sizeof(value)) != 0) {
    fail(Errc::internal, "a socket option is refused");
  }
}

void ZmqSocket::set(int option, std::int64_t value) {
  if (zmq_setsockopt(socket_, option, &value, sizeof(value)) != 0) {
    fail(Errc::internal, "a socket option is refused");
  }
}

void ZmqSocket::set(int option, std::span<const std::byte> bytes) {
  if (zmq_setsockopt(socket_, option, bytes.data(), bytes.size()) != 0) {
    fail(Errc::invalid_argument, "a key is refused");
  }
}

void ZmqSocket::set_link_options(Duration lease) {
  const auto lease_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(lease).count();
  set(ZMQ_TCP_MAXRT,
      static_cast<int>(std::clamp<std::int64_t>(lease_ms, 1, 3'600'000)));
  set(ZMQ_LINGER, kLingerMs);
  set(ZMQ_SNDHWM, kMostQueued);
  set(ZMQ_RCVHWM, kMostUnread);
  set(ZMQ_MAXMSGSIZE,
      static_cast<std::int64_t>(kHeadBytes + kMostPayloadBytes));
  set(ZMQ_HANDSHAKE_IVL, static_cast<int>(kMostHandshake.count()));
  set(ZMQ_TCP_KEEPALIVE, 1);
  set(ZMQ_RECONNECT_IVL, kReconnectMs);
  set(ZMQ_RECONNECT_IVL_MAX, kMostReconnectMs);
  if (is_router_) {
    set(ZMQ_ROUTER_MANDATORY, 1);
    set(ZMQ_BACKLOG, kBacklog);
  }
}

void ZmqSocket::bind(const std::string& endpoint) {
  if (zmq_bind(socket_, endpoint.c_str()) != 0) {
    fail(Errc::io, "cannot listen at " + in_quotes(endpoint));
  }
}

void ZmqSocket::connect(const std::string& endpoint) {
  if (zmq_connect(socket_, endpoint.c_str()) != 0) {
    fail(Errc::invalid_argument, "cannot dial " + in_quotes(endpoint));
  }
}

std::string ZmqSocket::last_endpoint() const {
  char text[512] = {};
  std::size_t size = sizeof(text);
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) != 0) {
    fail(Errc::internal, "a socket has no endpoint");
  }
  return text;
}

int ZmqSocket::descriptor() const {
  int descriptor = -1;
  std::size_t size = sizeof(descriptor);
  zmq_getsockopt(socket_, ZMQ_FD, &descriptor, &size);
  return descriptor;
}

bool ZmqSocket::is_readable() const {
  int events = 0;
  std::size_t size = sizeof(events);
  return zmq_getsockopt(socket_, ZMQ_EVENTS, &events, &size) == 0 &&
         (events & ZMQ_POLLIN) != 0;
}

bool ZmqSocket::send(const std::string& route, const FrameHead& head,
                     const SharedBytes& payload) {
  FrameHead sent = head;
  const bool follows =
      head.kind == FrameKind::chunk && payload.size > kMostInlineChunk;
  if (follows) {
    sent.flags |= kFollows;
    sent.d = payload.size;
  }
  const auto head_bytes = encode_head(sent, payload.span());
  const std::size_t inline_bytes = follows ? 0 : payload.size;
  ZmqMessage first;
  check_memory(zmq_msg_init_size(first.get(), kHeadBytes + inline_bytes));
  auto* to = static_cast<std::byte*>(zmq_msg_data(first.get()));
  std::memcpy(to, head_bytes.data(), kHeadBytes);
  if (inline_bytes > 0) {
    std::memcpy(to + kHeadBytes, payload.data.get(), inline_bytes);
  }
  if (!send_message(route, first)) {
    return false;
  }
  if (!follows) {
    return true;
  }
  ZmqMessage second;
  auto owner = std::make_unique<std::shared_ptr<std::byte>>(payload.data);
  check_memory(zmq_msg_init_data(second.get(), payload.data.get(), payload.size,
                                 let_go, owner.get()));
  static_cast<void>(owner.release());  // let_go has it now
  return send_message(route, second);
}

bool ZmqSocket::send_message(const std::string& route, ZmqMessage& message) {
  // Of a router the route is a part in this process, and not on the wire.
  return (!is_router_ || zmq_send(socket_, route.data(), route.size(),
                                  ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0) &&
         zmq_msg_send(message.get(), socket_, ZMQ_DONTWAIT) >= 0;
}

ZmqSocket ZmqSocket::monitor(int events) {
  const std::string name =
      "inproc://zeromq.monitor-" +
      std::to_string(reinterpret_cast<std::uintptr_t>(socket_));
  if (zmq_socket_monitor(socket_, name.c_str(), events) != 0) {
    fail(Errc::io, "a socket cannot be watched");
  }
  ZmqSocket monitor(context_, ZMQ_PAIR);
  monitor.set(ZMQ_LINGER, 0);
  // Without a bound: ZeroMQ's own thread waits where it cannot write an event,
  // and `stop_monitor` would wait for that thread.
  monitor.set(ZMQ_RCVHWM, 0);
  monitor.connect(name);
  return monitor;
}

void ZmqSocket::stop_monitor() { zmq_socket_monitor(socket_, nullptr, 0); }

std::optional<ZmqEvent> ZmqSocket::receive_event() {
  while (const auto parts = receive_parts(2)) {
    const std::string& text = parts->front();
    std::uint16_t kind = 0;
    std::int32_t value = 0;
    if (text.size() == sizeof(kind) + sizeof(value)) {
      std::memcpy(&kind, text.data(), sizeof(kind));
      std::memcpy(&value, text.data() + sizeof(kind), sizeof(value));
      return ZmqEvent{kind, value};
    }
  }
  return std::nullopt;
}

bool ZmqSocket::receive_part(ZmqMessage& part) {
  return zmq_msg_recv(part.get(), socket_, ZMQ_DONTWAIT) >= 0;
}

bool ZmqSocket::has_more() const {
  int more = 0;
  std::size_t size = sizeof(more);
  zmq_getsockopt(socket_, ZMQ_RCVMORE, &more, &size);
  return more != 0;
}

void ZmqSocket::skip_rest() {
  ZmqMessage part;
  while (has_more() && receive_part(part)) {
  }
}

bool ZmqSocket::receive(ZmqFrame& frame) {
  frame.bytes = {};
  if (!receive_part(frame.message)) {
    return false;
  }
  if (is_router_) {
    frame.route.assign(text_of(frame.message.bytes()));
    if (!has_more() || !receive_part(frame.message)) {
      return true;
    }
  }
  if (has_more()) {
    skip_rest();
  } else {
    frame.bytes = frame.message.bytes();
  }
  return true;
}

std::optional<std::vector<std::string>> ZmqSocket::receive_parts(
    std::size_t most) {
  std::vector<std::string> parts;
  do {
    ZmqMessage part;
    if (!receive_part(part)) {
      return std::nullopt;
    }
    const auto bytes = part.bytes();
    if (parts.size() == most || bytes.size() > 255) {
      skip_rest();
      return std::nullopt;
    }
    parts.emplace_back(text_of(bytes));
  } while (has_more());
  return parts;
}

void ZmqSocket::send_parts(const std::vector<std::string>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    zmq_send(socket_, parts[i].data(), parts[i].size(),
             ZMQ_DONTWAIT | (i + 1 < parts.size() ? ZMQ_SNDMORE : 0));
  }
}

}  // namespace troupe::net
