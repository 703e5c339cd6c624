#pragma once

#include <gtest/gtest.h>
#include <zmq.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/link_frame.h"

namespace troupe::net {

/// A ZeroMQ socket without a hub: it sends frames that no hub would send.
class RawPeer {
 public:
  RawPeer(int type, const std::string& endpoint, bool listens = false)
      : RawPeer(type) {
    EXPECT_EQ(listens ? zmq_bind(socket_, endpoint.c_str())
                      : zmq_connect(socket_, endpoint.c_str()),
              0);
  }
  /// With keys.
  RawPeer(const LinkKeys& keys, const PublicKey& listener,
          const std::string& endpoint)
      : RawPeer(ZMQ_DEALER) {
    const auto set = [this](int option, std::span<const std::byte> key) {
      EXPECT_EQ(zmq_setsockopt(socket_, option, key.data(), key.size()), 0);
    };
    set(ZMQ_CURVE_SERVERKEY, listener);
    set(ZMQ_CURVE_PUBLICKEY, keys.own.public_key);
    set(ZMQ_CURVE_SECRETKEY, keys.own.secret.bytes());
    EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0);
  }
  explicit RawPeer(int type)
      : context_(zmq_ctx_new(), [](void* it) { zmq_ctx_term(it); }),
        socket_(zmq_socket(context_.get(), type)) {
    // Closing one at once, with a message of several parts half sent, can abort
    // the process (see net/link_frame.h).
    const int linger = 5000;
    const int patience_ms = 10'000;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience_ms, sizeof(patience_ms));
    zmq_setsockopt(socket_, ZMQ_SNDTIMEO, &patience_ms, sizeof(patience_ms));
  }
  ~RawPeer() { zmq_close(socket_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void send(const std::vector<std::string>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_GE(zmq_send(socket_, parts[i].data(), parts[i].size(),
                         i + 1 < parts.size() ? ZMQ_SNDMORE : 0),
                0)
          << zmq_strerror(zmq_errno());
    }
  }
  [[nodiscard]] std::vector<std::string> receive() {
    std::vector<std::string> parts;
    int more = 1;
    while (more != 0) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, socket_, 0) < 0) {
        ADD_FAILURE() << "nothing came";
        return parts;
      }
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&part)),
                         zmq_msg_size(&part));
      more = zmq_msg_more(&part);
      zmq_msg_close(&part);
    }
    return parts;
  }
  /// Throws away what has come.
  void skip_all() {
    char byte = 0;
    while (zmq_recv(socket_, &byte, 1, ZMQ_DONTWAIT) >= 0) {
    }
  }
  [[nodiscard]] std::string endpoint() const {
    char text[256];
    std::size_t size = sizeof(text);
    zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size);
    return text;
  }

 private:
  std::shared_ptr<void> context_;
  void* socket_;
};

/// A frame as one message part; `version`: another one than ours.
[[nodiscard]] inline std::string frame_text(
    const FrameHead& head, const std::string& payload = {},
    std::optional<std::uint16_t> version = std::nullopt) {
  const auto bytes = encode_head(head, std::as_bytes(std::span(payload)));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (version) {
    std::memcpy(text.data() + 4, &*version, sizeof(*version));
  }
  return text + payload;
}

/// The frame of a message part.
[[nodiscard]] inline ReadHead read_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  const std::size_t head = std::min(bytes.size(), kHeadBytes);
  return read_head(bytes.first(head), bytes.subspan(head));
}

/// A listener that speaks the protocol by hand.
class RawListener {
 public:
  /// Lets in who dials.
  void welcome() {
    const auto hello = raw_.receive();
    ASSERT_EQ(hello.size(), 2U);
    session_ = read_text(hello[1]).head.session;
    session_.listener = 7;
    control_ = hello[0];
    send({frame_text(
        {.kind = FrameKind::welcome, .session = session_, .a = 2000, .b = 3},
        "bad")});
  }
  /// On the control lane.
  void send(std::vector<std::string> parts) {
    parts.insert(parts.begin(), control_);
    raw_.send(parts);
  }
  /// Answers the next question with these bytes in one part.
  void answer(const std::string& bytes, std::uint64_t hash) {
    while (true) {
      const auto message = raw_.receive();
      ASSERT_EQ(message.size(), 2U);
      const ReadHead read = read_text(message[1]);
      if (read.state != FrameState::good || read.head.kind != FrameKind::want ||
          read.head.a <= answered_) {
        continue;
      }
      answered_ = read.head.a;
      const std::uint64_t size = bytes.size();
      raw_.send(
          {message[0], frame_text({.kind = FrameKind::found,
                                   .session = session_,
                                   .a = answered_,
                                   .b = size,
                                   .c = read.head.d},
                                  {reinterpret_cast<const char*>(&size), 8})});
      raw_.send({message[0], frame_text({.kind = FrameKind::chunk,
                                         .flags = kLast,
                                         .session = session_,
                                         .a = answered_,
                                         .c = read.head.d,
                                         .value_hash = hash},
                                        bytes)});
      return;
    }
  }
  [[nodiscard]] std::string endpoint() const { return raw_.endpoint(); }
  [[nodiscard]] const SessionId& session() const { return session_; }

 private:
  RawPeer raw_{ZMQ_ROUTER, "tcp://127.0.0.1:*", true};
  std::string control_;  ///< the route of that lane
  SessionId session_;
  std::uint64_t answered_ = 0;  ///< the newest transfer
};

}  // namespace troupe::net
