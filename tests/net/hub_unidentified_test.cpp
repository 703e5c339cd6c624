#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/accepted_connections.h"
#include "tests/net/hub_support.h"
#include "tests/net/tcp_relay.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

/// Whether the other side has ended the connection.
[[nodiscard]] bool is_ended(int descriptor) {
  char bytes[256];
  ssize_t got = 0;
  while ((got = recv(descriptor, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

/// A connection within this process: the descriptor that was accepted, and the
/// other end.
class Connected {
 public:
  Connected() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
  }
  ~Connected() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;

  [[nodiscard]] int accepted() const { return ends_[0]; }
  [[nodiscard]] bool ended() const { return is_ended(ends_[1]); }
  /// Another connection has its descriptor from now on.
  void become(const Connected& other) const {
    EXPECT_EQ(dup3(other.ends_[0], ends_[0], O_CLOEXEC), ends_[0]);
  }

 private:
  int ends_[2] = {-1, -1};
};

class Accepted : public testing::Test {
 protected:
  /// Accepts all, one after the other within 10 ms.
  void accept_all() {
    for (const Connected& one : all_) {
      accepted_.accept(one.accepted(), now_);
      accepted_.shed(now_);
      now_ += 2ms;
    }
  }
  [[nodiscard]] std::vector<bool> ended() const {
    std::vector<bool> are_ended;
    for (const Connected& one : all_) {
      are_ended.push_back(one.ended());
    }
    return are_ended;
  }

  TimePoint now_{1h};
  AcceptedConnections accepted_{3};
  Connected all_[5];
};

TEST_F(Accepted, OfManyAtOnceTheFirstStay) {
  accept_all();
  EXPECT_EQ(ended(), (std::vector<bool>{false, false, false, true, true}));
  EXPECT_EQ(accepted_.num_unidentified(), 3U);
}

TEST_F(Accepted, EndAfterTheTimeOfAHandshakeToMakeRoom) {
  for (int i = 0; i < 3; ++i) {
    accepted_.accept(all_[i].accepted(), now_);
  }
  now_ += 300ms;
  accepted_.accept(all_[3].accepted(), now_);
  accepted_.shed(now_);
  EXPECT_EQ(ended(), (std::vector<bool>{true, false, false, false, false}));
}

TEST_F(Accepted, AreIdentifiedByAFrameOfAPeer) {
  const AcceptedConnections::Owner owner{.peer = 9, .lane = Lane::beats};
  accepted_.accept(all_[0].accepted(), now_);
  EXPECT_EQ(accepted_.take(all_[0].accepted(), owner),
            AcceptedConnections::Owner{});
  for (int i = 1; i < 5; ++i) {
    accepted_.accept(all_[i].accepted(), now_ + 300ms);
  }
  accepted_.shed(now_ + 300ms);
  EXPECT_EQ(ended(), (std::vector<bool>{false, false, false, false, true}));
  EXPECT_EQ(accepted_.close(all_[0].accepted()), owner);
  EXPECT_EQ(accepted_.close(all_[0].accepted()), std::nullopt);
  EXPECT_EQ(accepted_.take(all_[0].accepted(), owner), std::nullopt)
      << "it was closed before";
}

TEST_F(Accepted, AreUnidentifiedAgainAfterTheirPeer) {
  const AcceptedConnections::Owner owner{.peer = 9, .lane = Lane::beats};
  accepted_.accept(all_[0].accepted(), now_);
  static_cast<void>(accepted_.take(all_[0].accepted(), owner));
  EXPECT_EQ(accepted_.num_unidentified(), 0U);
  accepted_.give_back(all_[0].accepted(), {.peer = 8, .lane = Lane::beats},
                      now_);
  EXPECT_EQ(accepted_.num_unidentified(), 0U) << "it is another peer's";
  accepted_.give_back(all_[0].accepted(), owner, now_);
  EXPECT_EQ(accepted_.num_unidentified(), 1U);
}

TEST_F(Accepted, ADescriptorThatIsAnotherConnectionsNowIsLeftAlone) {
  for (int i = 0; i < 3; ++i) {
    accepted_.accept(all_[i].accepted(), now_);
  }
  // ZeroMQ has closed the first one, and the event is unread.
  all_[0].become(all_[4]);
  now_ += 300ms;
  accepted_.accept(all_[3].accepted(), now_);
  accepted_.shed(now_);
  EXPECT_FALSE(all_[4].ended());
}

/// Completes ZeroMQ's handshake, so that no deadline closes the
/// connection, and then says nothing.
[[nodiscard]] int greet_and_be_silent(std::uint16_t port) {
  const int descriptor = connect_to(port);
  std::string greeting = "\xff" + std::string(8, '\0') + "\x7f\x03";
  greeting.resize(12, '\0');
  greeting += "NULL";
  greeting.resize(64, '\0');
  const std::string type = std::string("\x0bSocket-Type", 12) +
                           std::string("\0\0\0\x06", 4) + "DEALER";
  const std::string ready = "\x05READY" + type;
  greeting += std::string("\x04") + static_cast<char>(ready.size()) + ready;
  EXPECT_EQ(send(descriptor, greeting.data(), greeting.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(greeting.size()));
  return descriptor;
}

TEST(HubUnidentifiedConnections, BeyondTheMostAreEndedAndPeersGoOn) {
  constexpr std::size_t kMost = 20;
  Process a({.role = "coordinator", .lease = 20s, .most_unidentified = kMost});
  const std::string endpoint = a.hub->listen("tcp://127.0.0.1:0");
  Process b({.role = "worker", .lease = 20s});
  const PeerId peer = b.hub->dial(endpoint, {});
  ASSERT_TRUE(b.witness.wait_up(peer));
  std::vector<int> silent;
  for (std::size_t i = 0; i < 100; ++i) {
    silent.push_back(greet_and_be_silent(port_of(endpoint)));
    b.hub->send(peer, share("record " + std::to_string(i)));
  }
  EXPECT_TRUE(a.witness.wait_records(1, 100));
  std::size_t num_open = silent.size();
  for (int i = 0; i < 30'000 && num_open > kMost; ++i) {
    std::this_thread::sleep_for(1ms);
    num_open = static_cast<std::size_t>(
        std::ranges::count_if(silent, [](int it) { return !is_ended(it); }));
  }
  EXPECT_LE(num_open, kMost);
  EXPECT_GT(num_open, 0U) << "not all";
  const PeerId second = b.hub->dial(endpoint, {.deadline = 20s});
  EXPECT_TRUE(b.witness.wait_up(second)) << "there is room for others";
  EXPECT_FALSE(b.witness.look(peer).loss);
  for (const int descriptor : silent) {
    close(descriptor);
  }
}

}  // namespace
}  // namespace troupe::net
