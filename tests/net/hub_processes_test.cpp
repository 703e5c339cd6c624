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

/// Another process, with a hub of its own: dials, sends records without end,
/// and dials again when it has lost its peer.
class OtherProcess {
 public:
  explicit OtherProcess(const std::string& endpoint) : id_(fork()) {
    if (id_ == 0) {
      run(endpoint);
    }
  }
  ~OtherProcess() {
    signal(SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  void signal(int number) const { kill(id_, number); }

 private:
  [[noreturn]] static void run(const std::string& endpoint) {
    Process process({.role = "worker", .lease = kLease});
    while (true) {
      const PeerId peer = process.hub->dial(endpoint, {.deadline = 20s});
      while (!process.witness.look(peer).loss) {
        process.hub->send(peer, share(std::string("alive")));
        std::this_thread::sleep_for(5ms);
      }
    }
  }

  pid_t id_;
};

TEST(HubProcesses, LoseAPeerThatIsKilled) {
  SocketFolder folder;
  const std::string endpoint = "ipc://" + folder.path() + "/a";
  const OtherProcess other(endpoint);  // before this process has threads
  Process a({.role = "coordinator", .lease = kLease});
  a.hub->listen(endpoint);
  ASSERT_TRUE(a.witness.wait_records(1, 3));
  other.signal(SIGKILL);
  ASSERT_TRUE(a.witness.wait_lost(1));
  EXPECT_EQ(a.witness.look(1).loss->cause, LossCause::silent);
}

TEST(HubProcesses, LoseAPeerThatIsFrozenAndTakeItAsAnotherOne) {
  SocketFolder folder;
  const std::string endpoint = "ipc://" + folder.path() + "/a";
  const OtherProcess other(endpoint);
  Process a({.role = "coordinator", .lease = kLease});
  a.hub->listen(endpoint);
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
