#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/rank_faults.h"

namespace troupe::net {

/// What befalls all that goes through some relays, once so many bytes have gone
/// through them: connections end, nothing goes through any more, or it goes
/// slowly. Thread: any.
struct RelayFault {
  RelayFault(RankFault what, std::int64_t bytes)
      : kind(what), bytes_left(bytes) {}

  /// So many bytes have come: how many of them go through.
  [[nodiscard]] std::int64_t let_through(std::int64_t bytes) {
    if (!counts) {
      return bytes;
    }
    const std::int64_t left = bytes_left.fetch_sub(bytes);
    if (left > bytes) {
      return bytes;
    }
    if (left > 0) {
      come();
    }
    if (kind != RankFault::is_slow) {
      return std::max<std::int64_t>(left, 0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    return bytes;
  }

  void come() {
    at = std::chrono::steady_clock::now();
    has_come = true;
  }

  const RankFault kind;
  std::atomic<bool> counts = false;  ///< from now on
  std::atomic<std::int64_t> bytes_left;
  std::atomic<std::chrono::steady_clock::time_point> at{};
  std::atomic<bool> has_come = false;
};

/// Stands between two hubs: forwards tcp connections to a port, until it cuts
/// them or lets nothing through.
class TcpRelay {
 public:
  explicit TcpRelay(std::uint16_t to,
                    std::shared_ptr<RelayFault> fault = nullptr)
      : to_(to), fault_(std::move(fault)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in any = address(0);
    EXPECT_EQ(
        bind(listener_, reinterpret_cast<const sockaddr*>(&any), sizeof(any)),
        0);
    EXPECT_EQ(listen(listener_, 64), 0);
    sockaddr_in bound{};
    socklen_t size = sizeof(bound);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size);
    port_ = ntohs(bound.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~TcpRelay() {
    stop_ = true;
    thread_.join();
    close_all();
    close(listener_);
  }
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  [[nodiscard]] std::string endpoint() const {
    return "tcp://127.0.0.1:" + std::to_string(port_);
  }
  /// Ends all connections; new ones may come.
  void cut() { cut_ = true; }
  /// Ends all connections and makes none any more.
  void refuse() {
    refused_ = true;
    cut_ = true;
  }
  /// Nothing goes through, and no connection ends.
  void hold(bool held) {
    held_ = held;
    while (is_holding_ != held) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  [[nodiscard]] int num_cut() const { return num_cut_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static sockaddr_in address(std::uint16_t port) {
    sockaddr_in it{};
    it.sin_family = AF_INET;
    it.sin_port = htons(port);
    it.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return it;
  }

  void run() {
    while (!stop_) {
      if (fault_ && fault_->has_come) {
        obey(fault_->kind);
      }
      if (cut_.exchange(false)) {
        num_cut_ += static_cast<int>(pairs_.size());
        close_all();
      }
      is_holding_ = held_.load();
      if (is_holding_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      std::vector<pollfd> polled{
          {.fd = listener_, .events = POLLIN, .revents = 0}};
      for (const auto& [a, b] : pairs_) {
        polled.push_back({.fd = a, .events = POLLIN, .revents = 0});
        polled.push_back({.fd = b, .events = POLLIN, .revents = 0});
      }
      poll(polled.data(), polled.size(), 5);
      if ((polled[0].revents & POLLIN) != 0) {
        accept_one();
      }
      for (std::size_t i = (polled.size() - 1) / 2; i-- > 0;) {
        const auto [a, b] = pairs_[i];
        if ((polled[1 + 2 * i].revents != 0 && !forward(a, b)) ||
            (polled[2 + 2 * i].revents != 0 && !forward(b, a))) {
          close(a);
          close(b);
          pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
    }
  }

  void obey(RankFault kind) {
    if (kind == RankFault::dies) {
      refuse();
    } else if (kind == RankFault::hangs) {
      held_ = true;
    }
  }

  void accept_one() {
    const int from = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in target = address(to_);
    if (refused_ || connect(to, reinterpret_cast<const sockaddr*>(&target),
                            sizeof(target)) != 0) {
      close(from);
      close(to);
      return;
    }
    pairs_.emplace_back(from, to);
  }

  bool forward(int from, int to) {
    std::array<char, 65'536> buffer;
    ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      return false;
    }
    if (fault_) {
      got = fault_->let_through(got);
    }
    bytes_ += static_cast<std::uint64_t>(got);
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t now =
          send(to, buffer.data() + sent, static_cast<std::size_t>(got - sent),
               MSG_NOSIGNAL);
      if (now <= 0) {
        return false;
      }
      sent += now;
    }
    return true;
  }

  void close_all() {
    for (const auto& [a, b] : pairs_) {
      close(a);
      close(b);
    }
    pairs_.clear();
  }

  std::uint16_t to_;
  std::shared_ptr<RelayFault> fault_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::vector<std::pair<int, int>> pairs_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> refused_ = false;
  std::atomic<bool> held_ = false;
  std::atomic<bool> is_holding_ = false;
  std::atomic<int> num_cut_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::thread thread_;
};

/// The port of "tcp://host:port".
[[nodiscard]] inline std::uint16_t port_of(const std::string& endpoint) {
  return static_cast<std::uint16_t>(
      std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

/// A plain connection to this machine; -1 where none can be made.
[[nodiscard]] inline int connect_to(std::uint16_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (descriptor >= 0 &&
      connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) !=
          0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace troupe::net
