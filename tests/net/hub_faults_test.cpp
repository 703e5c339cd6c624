#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "net/link_session.h"
#include "tests/net/hub_support.h"
#include "tests/net/tcp_relay.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

/// Two hubs, and a relay between them.
struct Relayed {
  /// `grace`: a busy machine may need longer than a user would wait.
  explicit Relayed(Duration lease, Duration grace = 20s)
      : a({.role = "coordinator", .lease = lease, .reconnect_grace = grace}),
        b({.role = "worker", .lease = lease, .reconnect_grace = grace}),
        relay(port_of(a.hub->listen("tcp://127.0.0.1:0"))),
        peer(b.hub->dial(relay.endpoint(), {})) {
    EXPECT_TRUE(b.witness.wait_up(peer));
    EXPECT_TRUE(a.witness.wait_up(1));
  }
  Process a;
  Process b;
  TcpRelay relay;
  PeerId peer;
};

TEST(HubFaults, GoOnWhenConnectionsAreCut) {
  Relayed link(20s);
  const std::string bytes(std::size_t{2} << 20U, 'v');
  link.a.witness.offer("v", {share(bytes)});
  link.b.witness.offer("v", {share(bytes)});
  std::atomic<int> found = 0;
  std::atomic<int> ended = 0;
  const FetchTaker taker = [&](Fetched fetched) {
    found += fetched.status == FetchStatus::found ? 1 : 0;
    ++ended;
  };
  constexpr int kRecords = 400;
  constexpr int kFetches = 40;
  std::vector<std::string> sent;
  for (int i = 0; i < kRecords; ++i) {
    sent.push_back(std::string(100 + i * 37 % 40'000, 'r') + std::to_string(i));
    for (const auto& [process, peer] :
         {std::pair(&link.a, PeerId{1}), std::pair(&link.b, link.peer)}) {
      while (process->hub->send(peer, share(sent.back())) ==
             SendResult::no_room) {
        std::this_thread::sleep_for(1ms);
      }
    }
    if (i % (kRecords / kFetches) == 0) {
      link.a.hub->fetch(1, "v", {}, taker);
      link.b.hub->fetch(link.peer, "v", {}, taker);
    }
    if (i % 40 == 20) {
      link.relay.cut();
      std::this_thread::sleep_for(30ms);
    }
  }
  EXPECT_TRUE(link.a.witness.wait_records(1, kRecords));
  EXPECT_TRUE(link.b.witness.wait_records(link.peer, kRecords));
  for (int i = 0; i < 30'000 && ended < 2 * kFetches; ++i) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(found, 2 * kFetches);
  EXPECT_TRUE(link.a.witness.look(1).records == sent);
  EXPECT_TRUE(link.b.witness.look(link.peer).records == sent);
  EXPECT_FALSE(link.a.witness.look(1).loss);
  EXPECT_GE(link.relay.num_cut(), 3) << "what the test is about";
}

TEST(HubFaults, LoseAPeerBehindAPartitionAndNeverTakeItsSessionUpAgain) {
  Relayed link(500ms);
  link.relay.hold(true);
  EXPECT_EQ(link.b.hub->send(link.peer, share(std::string("late"))),
            SendResult::queued);
  ASSERT_TRUE(link.a.witness.wait_lost(1));
  ASSERT_TRUE(link.b.witness.wait_lost(link.peer));
  EXPECT_EQ(link.a.witness.look(1).loss->cause, LossCause::silent);
  EXPECT_EQ(link.b.witness.look(link.peer).loss->cause, LossCause::silent);
  link.relay.hold(false);
  const PeerId again = link.b.hub->dial(link.relay.endpoint(), {});
  EXPECT_NE(again, link.peer);
  ASSERT_TRUE(link.b.witness.wait_up(again));
  ASSERT_TRUE(link.a.witness.wait_up(2));
  link.b.hub->send(again, share(std::string("new")));
  ASSERT_TRUE(link.a.witness.wait_records(2, 1));
  EXPECT_EQ(link.a.witness.look(2).records[0], "new");
  EXPECT_EQ(link.a.witness.look(1).num_records, 0U);
}

TEST(HubFaults, LoseAPeerWhoseConnectionsAreCutAndNotMadeAgain) {
  Relayed link(600s, 30ms);
  ASSERT_TRUE(link.a.witness.wait_round_trip(1));
  ASSERT_TRUE(link.b.witness.wait_round_trip(link.peer));
  link.relay.refuse();
  ASSERT_TRUE(link.a.witness.wait_lost(1));
  ASSERT_TRUE(link.b.witness.wait_lost(link.peer));
  const Loss seen_by_a = *link.a.witness.look(1).loss;
  const Loss seen_by_b = *link.b.witness.look(link.peer).loss;
  EXPECT_EQ(seen_by_a.cause, LossCause::closed) << seen_by_a.what;
  EXPECT_EQ(seen_by_b.cause, LossCause::closed) << seen_by_b.what;
  EXPECT_NE(seen_by_b.what.find(link.relay.endpoint()), std::string::npos)
      << seen_by_b.what;
}

TEST(HubFaults, TellAPeerOfABegunAnewProcessThatItIsForgotten) {
  SocketFolder folder;
  const std::string endpoint = "ipc://" + folder.path() + "/a";
  auto a = std::make_unique<Process>(
      HubOptions{.role = "coordinator", .lease = 20s});
  a->hub->listen(endpoint);
  Process b({.role = "worker", .lease = 20s});
  const PeerId peer = b.hub->dial(endpoint, {});
  ASSERT_TRUE(b.witness.wait_up(peer));
  a.reset();
  ASSERT_TRUE(b.witness.wait_lost(peer));
  EXPECT_EQ(b.witness.look(peer).loss->cause, LossCause::left);
}

TEST(HubFaults, SayThatNobodyListens) {
  Process b({.role = "worker"});
  SocketFolder folder;
  for (const std::string& endpoint : {"ipc://" + folder.path() + "/nobody",
                                      std::string("tcp://127.0.0.1:1")}) {
    const PeerId peer = b.hub->dial(endpoint, {.deadline = 200ms});
    ASSERT_TRUE(b.witness.wait_lost(peer));
    const Loss loss = *b.witness.look(peer).loss;
    EXPECT_EQ(loss.cause, LossCause::unreachable);
    EXPECT_EQ(loss.what, endpoint +
                             " did not answer the greeting within 200 ms: it "
                             "takes no connection, as nobody listens there");
    EXPECT_EQ(loss.seen, "it takes no connection, as nobody listens there");
  }
}

/// Before ZeroMQ ends the handshake (2 s), and after.
TEST(HubFaults, SayThatAHostTakesConnectionsAndSaysNothing) {
  TcpRelay frozen(1);
  frozen.hold(true);
  for (const auto deadline : {500ms, 3000ms}) {
    Process b({.role = "worker"});
    const PeerId peer = b.hub->dial(frozen.endpoint(), {.deadline = deadline});
    ASSERT_TRUE(b.witness.wait_lost(peer));
    const Loss loss = *b.witness.look(peer).loss;
    EXPECT_EQ(loss.cause, LossCause::unreachable);
    EXPECT_EQ(loss.what,
              frozen.endpoint() + " did not answer the greeting within " +
                  to_text(deadline) +
                  ": it takes the connection and says nothing; look whether "
                  "the address is right and whether the process there runs "
                  "(it may be stopped)");
  }
}

TEST(HubFaults, CarryTheSentenceOfARefusal) {
  Process a({.role = "coordinator"});
  a.witness.refusal = "the job has other weights";
  Process b({.role = "worker"});
  const PeerId peer = b.hub->dial(a.hub->listen("tcp://127.0.0.1:0"), {});
  ASSERT_TRUE(b.witness.wait_lost(peer));
  EXPECT_EQ(b.witness.look(peer).loss->cause, LossCause::refused);
  EXPECT_NE(b.witness.look(peer).loss->what.find(
                "refused: the job has other weights"),
            std::string::npos);
  EXPECT_FALSE(a.witness.look(1).loss) << "it refused by itself";
}

TEST(HubFaults, RefuseWhoIsNotAnswered) {
  Process a({.role = "coordinator", .greeting_deadline = 100ms});
  a.witness.accepts = false;
  Process b({.role = "worker"});
  const PeerId peer = b.hub->dial(a.hub->listen("tcp://127.0.0.1:0"), {});
  ASSERT_TRUE(b.witness.wait_lost(peer));
  EXPECT_EQ(b.witness.look(peer).loss->cause, LossCause::refused);
  ASSERT_TRUE(a.witness.wait_lost(1));
  a.hub->accept(1, "too late");
}

class Keys : public testing::Test {
 protected:
  Keys()
      : listener_(make_keys()), worker_(make_keys()), stranger_(make_keys()) {
    listener_.allowed.push_back({worker_.own.public_key, "worker"});
    a_ = std::make_unique<Process>(
        HubOptions{.role = "coordinator", .keys = listener_});
    endpoint_ = a_->hub->listen("tcp://127.0.0.1:0");
  }

  Loss dial_and_lose(const std::string& role, const LinkKeys& keys,
                     const PublicKey& server) {
    Process b({.role = role, .keys = keys});
    const PeerId peer =
        b.hub->dial(endpoint_, {.key = server, .deadline = 700ms});
    EXPECT_TRUE(b.witness.wait_lost(peer));
    return b.witness.look(peer).loss.value_or(Loss{});
  }

  LinkKeys listener_;
  LinkKeys worker_;
  LinkKeys stranger_;
  std::unique_ptr<Process> a_;
  std::string endpoint_;
};

TEST_F(Keys, OfAStrangerAreNotLetIn) {
  const Loss loss =
      dial_and_lose("worker", stranger_, listener_.own.public_key);
  EXPECT_EQ(loss.cause, LossCause::refused);
  EXPECT_EQ(loss.what, endpoint_ + " does not let this side's key in");
  EXPECT_EQ(a_->witness.num_peers(), 0U);
}

TEST_F(Keys, OfTheListenerMustBeTheRightOnes) {
  const Loss loss = dial_and_lose("worker", worker_, stranger_.own.public_key);
  EXPECT_EQ(loss.cause, LossCause::unreachable);
  EXPECT_NE(loss.what.find("it has another key"), std::string::npos)
      << loss.what;
  EXPECT_EQ(a_->witness.num_peers(), 0U);
}

TEST_F(Keys, GiveNoOtherRole) {
  const Loss loss = dial_and_lose("client", worker_, listener_.own.public_key);
  EXPECT_EQ(loss.cause, LossCause::refused);
  EXPECT_NE(loss.what.find("your key may not have the role 'client'"),
            std::string::npos)
      << loss.what;
  EXPECT_EQ(a_->witness.num_peers(), 0U);
}

TEST_F(Keys, AreAskedOfWhoHasNone) {
  Process b({.role = "worker"});
  const PeerId peer = b.hub->dial(endpoint_, {.deadline = 700ms});
  ASSERT_TRUE(b.witness.wait_lost(peer));
  EXPECT_NE(
      b.witness.look(peer).loss->what.find("keys where this side has none"),
      std::string::npos)
      << b.witness.look(peer).loss->what;
  EXPECT_EQ(a_->witness.num_peers(), 0U);
}

TEST_F(Keys, AreNeededToDialWithKeys) {
  Process b({.role = "worker", .keys = worker_});
  EXPECT_THROW(b.hub->dial(endpoint_, {}), Error);
}

/// The message of what `call` throws.
template <typename Call>
[[nodiscard]] std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(HubEndpoints, OfThePublicNeedKeys) {
  Process a({.role = "coordinator"});
  for (const char* endpoint :
       {"tcp://*:7010", "tcp://0.0.0.0:7010", "tcp://10.1.2.3:7010",
        "tcp://[::]:7010", "tcp://127.0.0.1.example.org:7010",
        "tcp://eth0:7010"}) {
    EXPECT_NE(message_of([&] {
                a.hub->listen(endpoint);
              }).find("is public: nobody listens there without keys"),
              std::string::npos)
        << endpoint;
    EXPECT_NE(
        message_of([&] { a.hub->dial(endpoint, {}); }).find("without keys"),
        std::string::npos)
        << endpoint;
  }
}

TEST(HubEndpoints, ThatAreNoneAreRefused) {
  Process a({.role = "coordinator"});
  for (const char* endpoint :
       {"", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:70000", "udp://127.0.0.1:7", "ipc://",
        "ipc://relative", "ipc://@abstract", "inproc://",
        "inproc://zeromq.zap.01", "tcp://127.0.0.1:1;tcp://127.0.0.1:2",
        "ipc:///tmp/\n"}) {
    EXPECT_NE(message_of([&] { a.hub->listen(endpoint); }).find("the endpoint"),
              std::string::npos)
        << endpoint;
  }
  const std::string longest = "ipc:///tmp/" + std::string(120, 'x');
  EXPECT_NE(message_of([&] { a.hub->listen(longest); }).find("at most 107"),
            std::string::npos);
}

TEST(HubEndpoints, OfIpcLieInAFolderThatIsOursAlone) {
  SocketFolder folder;
  Process a({.role = "coordinator"});
  a.hub->listen("ipc://" + folder.path() + "/new/a");
  struct stat status {};
  ASSERT_EQ(stat((folder.path() + "/new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  a.hub->listen("ipc://" + folder.path() + "/over/it/a");
  for (const char* made : {"/over", "/over/it"}) {
    ASSERT_EQ(stat((folder.path() + made).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0700U) << made;
  }
  ASSERT_EQ(mkdir((folder.path() + "/open").c_str(), 0755), 0);
  EXPECT_NE(message_of([&] {
              a.hub->listen("ipc://" + folder.path() + "/open/a");
            }).find("others may enter"),
            std::string::npos);
}

TEST(HubEndpoints, AreNotTakenFromAnotherProcess) {
  SocketFolder folder;
  Process a({.role = "coordinator"});
  Process b({.role = "coordinator"});
  const std::string ipc = "ipc://" + folder.path() + "/a";
  a.hub->listen(ipc);
  EXPECT_NE(
      message_of([&] { b.hub->listen(ipc); }).find("another process listens"),
      std::string::npos);
  const std::string tcp = a.hub->listen("tcp://127.0.0.1:*");
  EXPECT_NE(message_of([&] { b.hub->listen(tcp); }).find("cannot listen at"),
            std::string::npos);
}

TEST(HubEndpoints, OfIpcAreRemovedByTheirOwnerAlone) {
  SocketFolder folder;
  const std::string path = folder.path() + "/a";
  const auto is_there = [&](const std::string& name) {
    struct stat status {};
    return lstat(name.c_str(), &status) == 0;
  };
  {
    Process a({.role = "coordinator"});
    a.hub->listen("ipc://" + path);
    EXPECT_TRUE(is_there(path) && is_there(path + ".lock"));
    Process b({.role = "coordinator"});
    EXPECT_NE(message_of([&] { b.hub->listen("ipc://" + path); }), "");
    b.hub.reset();
    EXPECT_TRUE(is_there(path) && is_there(path + ".lock")) << "they are a's";
  }
  EXPECT_FALSE(is_there(path) || is_there(path + ".lock"));
  {
    // Somebody has cleared the folder, and another process listens there now.
    Process a({.role = "coordinator"});
    a.hub->listen("ipc://" + path);
    unlink(path.c_str());
    unlink((path + ".lock").c_str());
    Process b({.role = "coordinator"});
    b.hub->listen("ipc://" + path);
    a.hub.reset();
    EXPECT_TRUE(is_there(path) && is_there(path + ".lock")) << "they are b's";
  }
  EXPECT_FALSE(is_there(path) || is_there(path + ".lock"));
}

TEST(HubEndpoints, AreNoFilesOfOthers) {
  SocketFolder folder;
  const std::string path = folder.path() + "/a";
  std::ofstream(path) << "a file";
  Process a({.role = "coordinator"});
  EXPECT_NE(
      message_of([&] { a.hub->listen("ipc://" + path); }).find("no socket"),
      std::string::npos);
  std::string content;
  std::getline(std::ifstream(path), content);
  EXPECT_EQ(content, "a file");
}

TEST(HubEndpoints, SpeakIpv6) {
  Process a({.role = "coordinator"});
  Process b({.role = "worker"});
  const PeerId peer = b.hub->dial(a.hub->listen("tcp://[::1]:0"), {});
  EXPECT_TRUE(b.witness.wait_up(peer));
}

TEST(HubOptions, AreChecked) {
  Process a({.role = "coordinator"});
  EXPECT_THROW(Process({.role = "x", .room = 1000}), Error);
  EXPECT_THROW(Process({.role = "x", .lease = 1ms}), Error);
  EXPECT_THROW(Process({.role = std::string(2000, 'x')}), Error);
  EXPECT_THROW(a.hub->send(1, {}), Error);
  EXPECT_THROW(a.hub->send(1, share(std::string(kMostRecordBytes + 1, 'x'))),
               Error);
  EXPECT_THROW(a.hub->fetch(1, std::string(kMostKeyBytes + 1, 'x'), {}, {}),
               Error);
  EXPECT_THROW(a.hub->give(1, Value(kMostValueParts + 1)), Error);
}

}  // namespace
}  // namespace troupe::net
