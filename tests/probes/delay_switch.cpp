// delay_switch MILLISECONDS INTERFACE…
//
// An Ethernet switch that delays every frame, for kernels without netem. The
// switch learns the interface of each address, and sends frames for unknown
// addresses to all other interfaces. It goes to the background as soon as it
// works. Frames come and go as the kernel has them (PACKET_VNET_HDR): up to 64
// KiB in one, with checksums left open, so that it keeps up with a fast link.
// scripts/hosts.sh starts it, in a network namespace of its own.

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Address = std::uint64_t;

/// A virtio_net_hdr, whose header C++ cannot read: it has a field named class.
constexpr std::size_t kFrameInfo = 10;
constexpr std::size_t kLongestFrame = 128 * 1024;
/// Frames on their way; what comes beyond is lost, as in a switch that is full.
constexpr std::size_t kMostBytes = 256U << 20U;
constexpr int kSocketBytes = 64 << 20;

void require(bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error(what);
  }
}

void set_option(int socket, int level, int option, int value,
                const char* name) {
  require(::setsockopt(socket, level, option, &value, sizeof value) == 0,
          std::string(name) + ": " + std::strerror(errno));
}

/// A socket for the raw frames of one interface.
int open_port(const std::string& interface) {
  const unsigned index = ::if_nametoindex(interface.c_str());
  require(index != 0, "no such interface: " + interface);
  const int port = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
  require(port >= 0, std::string("a raw socket: ") + std::strerror(errno));
  set_option(port, SOL_PACKET, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");
  set_option(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1,
             "PACKET_IGNORE_OUTGOING");
  set_option(port, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBytes, "SO_RCVBUFFORCE");
  set_option(port, SOL_SOCKET, SO_SNDBUFFORCE, kSocketBytes, "SO_SNDBUFFORCE");
  ::sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = __builtin_bswap16(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  require(::bind(port, reinterpret_cast<const ::sockaddr*>(&address),
                 sizeof address) == 0,
          interface + ": " + std::strerror(errno));
  return port;
}

struct Frame {
  Clock::time_point due;
  std::size_t to;
  std::vector<char> bytes;  ///< kFrameInfo, then the Ethernet header
};

class Switch {
 public:
  Switch(Clock::duration delay, const std::vector<std::string>& interfaces)
      : delay_(delay) {
    for (const std::string& interface : interfaces) {
      ports_.push_back({.fd = open_port(interface), .events = POLLIN});
    }
  }

  [[noreturn]] void run() {
    for (;;) {
      wait();
      for (std::size_t port = 0; port < ports_.size(); ++port) {
        if (ports_[port].revents != 0) {
          receive(port);
        }
      }
      deliver();
    }
  }

 private:
  static Address address_at(const std::vector<char>& frame, std::size_t at) {
    Address address = 0;
    std::memcpy(&address, frame.data() + kFrameInfo + at, ETH_ALEN);
    return address;
  }

  /// For a frame, or until the next one is due.
  void wait() {
    std::optional<::timespec> timeout;
    if (!frames_.empty()) {
      constexpr std::int64_t kSecond = 1'000'000'000;
      const std::int64_t left = std::max<std::int64_t>(
          0,
          std::chrono::nanoseconds(frames_.front().due - Clock::now()).count());
      timeout = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
    }
    const int count = ::ppoll(ports_.data(), ports_.size(),
                              timeout ? &*timeout : nullptr, nullptr);
    require(count >= 0 || errno == EINTR, "ppoll");
  }

  void receive(std::size_t from) {
    constexpr int kInOneGo = 64;
    buffer_.resize(kLongestFrame);
    for (int i = 0; i < kInOneGo; ++i) {
      const ::ssize_t size =
          ::recv(ports_[from].fd, buffer_.data(), buffer_.size(), 0);
      // Nothing more, or an interface that is down: it may come up again.
      if (size < static_cast<::ssize_t>(kFrameInfo + ETH_HLEN)) {
        return;
      }
      take(from, {buffer_.begin(), buffer_.begin() + size});
    }
  }

  void take(std::size_t from, std::vector<char> bytes) {
    const Clock::time_point due = Clock::now() + delay_;
    behind_[address_at(bytes, ETH_ALEN)] = from;
    const auto known = behind_.find(address_at(bytes, 0));
    if (known != behind_.end()) {
      if (known->second != from) {
        hold({due, known->second, std::move(bytes)});
      }
      return;
    }
    for (std::size_t to = 0; to < ports_.size(); ++to) {
      if (to != from) {
        hold({due, to, bytes});
      }
    }
  }

  void hold(Frame frame) {
    if (held_bytes_ + frame.bytes.size() <= kMostBytes) {
      held_bytes_ += frame.bytes.size();
      frames_.push_back(std::move(frame));
    }
  }

  /// The delay is the same for all: they are due in the order they came in.
  void deliver() {
    while (!frames_.empty() && frames_.front().due <= Clock::now()) {
      const Frame& frame = frames_.front();
      // What the interface does not take is lost, as on a wire.
      (void)::send(ports_[frame.to].fd, frame.bytes.data(), frame.bytes.size(),
                   0);
      held_bytes_ -= frame.bytes.size();
      frames_.pop_front();
    }
  }

  Clock::duration delay_;
  std::vector<::pollfd> ports_;
  std::unordered_map<Address, std::size_t> behind_;
  std::deque<Frame> frames_;
  std::size_t held_bytes_ = 0;
  std::vector<char> buffer_;
};

int milliseconds_of(const std::string& text) {
  constexpr std::size_t kMostDigits = 5;
  require(!text.empty() && text.size() <= kMostDigits &&
              text.find_first_not_of("0123456789") == text.npos,
          "got '" + text + "', expected milliseconds");
  return std::stoi(text);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 4, "expected MILLISECONDS INTERFACE INTERFACE…");
    Switch ports(std::chrono::milliseconds(milliseconds_of(argv[1])),
                 {argv + 2, argv + argc});
    // The switch stands for wires: other load on the machine must not slow it
    // down.
    constexpr int kAheadOfOthers = -10;
    (void)::setpriority(PRIO_PROCESS, 0, kAheadOfOthers);
    (void)::prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds; else 50,000
    require(::daemon(0, 0) == 0, "cannot go to the background");
    ports.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "delay_switch: %s\n", error.what());
    return 2;
  }
}
