#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "tests/net/hub_support.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLease = 400ms;
/// No test waits so long: what is lost earlier is not lost by its lease.
constexpr Duration kLongLease = 600s;

/// Another process, with a hub of its own.
class OtherProcess {
 public:
  /// Dials where `tell` says, sends records without end, and dials again when
  /// it has lost its peer.
  [[nodiscard]] static OtherProcess dialling(Duration lease) {
    return OtherProcess([lease](const Channel& to_it, const Channel&) {
      Process process({.role = "worker", .lease = lease});
      const std::string endpoint = to_it.read_line();
      while (true) {
        const PeerId peer = process.hub->dial(endpoint, {.deadline = 20s});
        while (!process.witness.look(peer).loss) {
          process.hub->send(peer, share(std::string("alive")));
          std::this_thread::sleep_for(5ms);
        }
      }
    });
  }
  /// Listens, and `ask` says where.
  [[nodiscard]] static OtherProcess listening(const std::string& endpoint) {
    return OtherProcess([endpoint](const Channel&, const Channel& from_it) {
      Process process({.role = "coordinator", .lease = kLongLease});
      from_it.write_line(process.hub->listen(endpoint));
      while (true) {
        pause();
      }
    });
  }
  ~OtherProcess() {
    signal(SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  void signal(int number) const { kill(id_, number); }
  void tell(const std::string& line) const { to_it_.write_line(line); }
  [[nodiscard]] std::string ask() const { return from_it_.read_line(); }

 private:
  /// Lines from one process to another.
  class Channel {
   public:
    Channel() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
    ~Channel() {
      close(ends_[0]);
      close(ends_[1]);
    }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    void write_line(const std::string& line) const {
      const std::string text = line + "\n";
      EXPECT_EQ(write(ends_[1], text.data(), text.size()),
                static_cast<ssize_t>(text.size()));
    }
    [[nodiscard]] std::string read_line() const {
      std::string line;
      for (char c = 0; read(ends_[0], &c, 1) == 1 && c != '\n';) {
        line += c;
      }
      return line;
    }

   private:
    int ends_[2] = {-1, -1};
  };

  template <typename Run>
  explicit OtherProcess(const Run& run) : id_(fork()) {
    if (id_ == 0) {
      run(to_it_, from_it_);
    }
  }

  Channel to_it_;
  Channel from_it_;
  pid_t id_;
};

/// Where a hub of this test listens.
class HubCrash : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::string endpoint() const {
    return GetParam() == std::string("ipc") ? "ipc://" + folder_.path() + "/a"
                                            : "tcp://127.0.0.1:*";
  }

 private:
  SocketFolder folder_;
};

TEST_P(HubCrash, OfWhoDialledIsNoticedLongBeforeTheLease) {
  // Before this process has threads.
  const OtherProcess other = OtherProcess::dialling(kLongLease);
  Process a({.role = "coordinator", .lease = kLongLease});
  other.tell(a.hub->listen(endpoint()));
  ASSERT_TRUE(a.witness.wait_records(1, 3));
  ASSERT_TRUE(a.witness.wait(
      [](auto& peers) { return peers[1].round_trip.has_value(); }));
  other.signal(SIGKILL);
  ASSERT_TRUE(a.witness.wait_lost(1));
  EXPECT_EQ(a.witness.look(1).loss->cause, LossCause::closed);
}

TEST_P(HubCrash, OfWhoListensIsNoticedLongBeforeTheLease) {
  const OtherProcess other = OtherProcess::listening(endpoint());
  const std::string where = other.ask();
  Process b({.role = "worker", .lease = kLongLease});
  const PeerId peer = b.hub->dial(where, {.deadline = 20s});
  ASSERT_TRUE(b.witness.wait_round_trip(peer));
  other.signal(SIGKILL);
  ASSERT_TRUE(b.witness.wait_lost(peer));
  const Loss loss = *b.witness.look(peer).loss;
  EXPECT_EQ(loss.cause, LossCause::closed);
  EXPECT_NE(loss.what.find(where), std::string::npos) << loss.what;
}

INSTANTIATE_TEST_SUITE_P(Transports, HubCrash, testing::Values("ipc", "tcp"),
                         [](const auto& transport) {
                           return std::string(transport.param);
                         });

TEST(HubProcesses, LoseAPeerThatIsFrozenAndTakeItAsAnotherOne) {
  SocketFolder folder;
  const std::string endpoint = "ipc://" + folder.path() + "/a";
  const OtherProcess other = OtherProcess::dialling(kLease);
  Process a({.role = "coordinator", .lease = kLease});
  a.hub->listen(endpoint);
  other.tell(endpoint);
  ASSERT_TRUE(a.witness.wait_records(1, 3));
  other.signal(SIGSTOP);
  ASSERT_TRUE(a.witness.wait_lost(1));
  const std::size_t before = a.witness.look(1).num_records;
  other.signal(SIGCONT);
  ASSERT_TRUE(a.witness.wait_records(2, 3)) << "it has dialled again";
  EXPECT_EQ(a.witness.look(1).num_records, before)
      << "nothing of a lost session arrives";
}

}  // namespace
}  // namespace troupe::net
