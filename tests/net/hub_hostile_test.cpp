#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "kernels/core/hash.h"
#include "kernels/core/system/machine.h"
#include "tests/net/hub_support.h"
#include "tests/net/raw_peer.h"
#include "tests/net/tcp_relay.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

constexpr SessionId kDialler{.dialler = 12345, .listener = 0};

TEST(HubVersions, ToldToWhoDials) {
  Process a({.role = "coordinator"});
  RawPeer raw(ZMQ_DEALER, a.hub->listen("tcp://127.0.0.1:0"));
  raw.send({frame_text({.kind = FrameKind::hello, .session = kDialler},
                       "worker", 7)});
  const auto answer = raw.receive();
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(read_text(answer[0]).head.kind, FrameKind::refuse);
  EXPECT_EQ(answer[0].substr(kHeadBytes),
            "this side speaks version 2 of the link protocol, not 7");
  EXPECT_EQ(a.witness.num_peers(), 0U);
}

TEST(HubVersions, HeardFromWhoListens) {
  RawPeer raw(ZMQ_ROUTER, "tcp://127.0.0.1:*", true);
  Process b({.role = "worker"});
  const PeerId peer = b.hub->dial(raw.endpoint(), {});
  const auto hello = raw.receive();
  ASSERT_EQ(hello.size(), 2U);
  raw.send({hello[0], frame_text({.kind = FrameKind::refuse}, "I am newer",
                                 kLinkVersion + 1)});
  ASSERT_TRUE(b.witness.wait_lost(peer));
  const Loss loss = *b.witness.look(peer).loss;
  EXPECT_EQ(loss.cause, LossCause::version);
  EXPECT_EQ(loss.what, raw.endpoint() +
                           " speaks version 3 of the link protocol, this side "
                           "version 2; it says: I am newer");
}

/// Sends a proper greeting and returns the session of the answer.
[[nodiscard]] SessionId greet(RawPeer& raw, std::uint64_t dialler) {
  raw.send({frame_text({.kind = FrameKind::hello,
                        .session = {.dialler = dialler},
                        .a = 2000,
                        .b = 6},
                       "worker")});
  while (true) {
    const auto answer = raw.receive();
    if (answer.empty()) {
      return {};
    }
    const ReadHead read = read_text(answer[0]);
    if (read.state == FrameState::good &&
        read.head.kind == FrameKind::welcome) {
      return read.head.session;
    }
  }
}

[[nodiscard]] std::string random_text(std::mt19937_64& random,
                                      std::size_t most) {
  std::string text(random() % (most + 1), '\0');
  for (char& c : text) {
    c = static_cast<char>(random());
  }
  return text;
}

/// A number that is likely to hurt.
[[nodiscard]] std::uint64_t random_number(std::mt19937_64& random) {
  const std::uint64_t numbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   random() % 100,
                                   random(),
                                   ~std::uint64_t{0},
                                   std::uint64_t{1} << 63U,
                                   kMostRecordBytes};
  return numbers[random() % std::size(numbers)];
}

/// Rubbish, from bytes without sense to frames in a session of one's own.
[[nodiscard]] std::vector<std::string> random_message(
    std::mt19937_64& random, const SessionId& session) {
  const auto kind = random() % 8;
  if (kind == 0) {
    std::vector<std::string> parts(1 + random() % 5);
    for (std::string& part : parts) {
      part = random_text(random, 200);
    }
    return parts;
  }
  FrameHead head{.kind = static_cast<FrameKind>(random() % 16),
                 .flags = static_cast<std::uint8_t>(random() % 4),
                 .session = session,
                 .a = random_number(random),
                 .b = random_number(random),
                 .c = random_number(random),
                 .d = random_number(random)};
  if (head.kind == FrameKind::bye && random() % 20 != 0) {
    head.kind = FrameKind::have;  // it would be over too soon
  }
  if (kind == 1) {
    head.session = {random_number(random), random_number(random)};
  }
  std::string text =
      frame_text(head, random_text(random, random() % 30 == 0 ? 20'000 : 60));
  if (kind == 2) {
    text[random() % text.size()] ^= static_cast<char>(1U << (random() % 8));
  }
  if (random() % 4 == 0) {  // in two parts, cut anywhere
    const std::size_t at =
        random() % 3 == 0 ? random() % text.size() : kHeadBytes;
    return {text.substr(0, at), text.substr(at)};
  }
  return {text};
}

void flood(const std::string& endpoint, std::uint64_t seed, int num_frames,
           std::atomic<int>& num_greeted) {
  std::mt19937_64 random(seed);
  auto raw = std::make_unique<RawPeer>(ZMQ_DEALER, endpoint);
  SessionId session = greet(*raw, random());
  for (int i = 0; i < num_frames; ++i) {
    if (i % 500 == 499) {
      raw = std::make_unique<RawPeer>(ZMQ_DEALER, endpoint);
      session = greet(*raw, random());
      ++num_greeted;
    }
    raw->send(random_message(random, session));
    raw->skip_all();
  }
}

/// TROUPE_GARBAGE_FRAMES: how many, for a longer run.
[[nodiscard]] int num_garbage_frames() {
  const char* text = std::getenv("TROUPE_GARBAGE_FRAMES");
  return text == nullptr ? 6000 : std::atoi(text);
}

TEST(HubHostile, GarbageHurtsNobodyElse) {
  Process a({.role = "coordinator", .lease = 20s});
  a.witness.keeps_records = false;
  const std::string bytes(300'000, 'v');
  a.witness.offer("v", {share(bytes)});
  const std::string endpoint = a.hub->listen("tcp://127.0.0.1:0");
  Process b({.role = "worker", .lease = 20s});
  const PeerId peer = b.hub->dial(endpoint, {});
  ASSERT_TRUE(b.witness.wait_up(peer));
  [[maybe_unused]] const std::uint64_t before = peak_rss_bytes();
  std::atomic<bool> is_over = false;
  std::atomic<int> num_greeted = 0;
  std::vector<std::thread> attackers;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    attackers.emplace_back([&, seed] {
      flood(endpoint, seed, num_garbage_frames() / 2, num_greeted);
    });
  }
  std::thread watch([&] {
    for (std::thread& attacker : attackers) {
      attacker.join();
    }
    is_over = true;
  });
  std::size_t sent = 0;
  std::size_t num_values = 0;
  Duration slowest{};
  Taken taken;
  while (!is_over) {
    const TimePoint asked = SteadyClock{}.now();
    sent += b.hub->send(peer, share("record " + std::to_string(sent))) ==
                    SendResult::queued
                ? 1
                : 0;
    b.hub->fetch(peer, "v", {}, taken.taker());
    const Fetched fetched = taken.wait();
    ASSERT_EQ(fetched.status, FetchStatus::found) << fetched.what;
    ASSERT_EQ(fetched.value[0].size, bytes.size());
    slowest = std::max(slowest, SteadyClock{}.now() - asked);
    ++num_values;
  }
  watch.join();
  std::printf(
      "%d frames of garbage from %d peers; meanwhile %zu values, "
      "the slowest in %.1f ms\n",
      num_garbage_frames(), num_greeted.load(), num_values,
      std::chrono::duration<double, std::milli>(slowest).count());
  EXPECT_TRUE(a.witness.wait_records(1, sent));
  EXPECT_EQ(a.witness.look(1).num_records, sent);
  EXPECT_FALSE(b.witness.look(peer).loss);
  EXPECT_GE(num_greeted, 10) << "peers that were let in";
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(peak_rss_bytes() - before, std::uint64_t{400} << 20U);
#endif
}

TEST(HubHostile, ConnectionsThatSayNothingAreClosed) {
  Process a({.role = "coordinator"});
  const std::uint16_t port = port_of(a.hub->listen("tcp://127.0.0.1:0"));
  std::vector<int> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(connect_to(port));
  }
  for (const int descriptor : silent) {
    timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience,
               sizeof(patience));
    char greeting[64];
    ssize_t got = 0;
    while ((got = recv(descriptor, greeting, sizeof(greeting), 0)) > 0) {
    }
    EXPECT_EQ(got, 0) << "it is still open";
    close(descriptor);
  }
}

TEST(HubHostile, ConnectionsBeyondTheLimitOfDescriptorsHurtNobodyElse) {
  Process a({.role = "coordinator", .lease = 20s});
  const std::string endpoint = a.hub->listen("tcp://127.0.0.1:0");
  Process b({.role = "worker", .lease = 20s});
  const PeerId peer = b.hub->dial(endpoint, {});
  ASSERT_TRUE(b.witness.wait_up(peer));
  std::vector<int> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(connect_to(port_of(endpoint)));
  }
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = static_cast<rlim_t>(silent.back()) + 60,
                   .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  while (silent.size() < 1000) {
    const int descriptor = connect_to(port_of(endpoint));
    if (descriptor < 0) {
      break;
    }
    silent.push_back(descriptor);
  }
  for (std::size_t i = 1; i <= 200; ++i) {
    b.hub->send(peer, share("record " + std::to_string(i)));
    EXPECT_TRUE(a.witness.wait_records(1, i));
  }
  for (const int descriptor : silent) {
    close(descriptor);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  const PeerId second = b.hub->dial(endpoint, {.deadline = 20s});
  EXPECT_TRUE(b.witness.wait_up(second)) << "it listens again";
}

/// A listener that answers a proper greeting, and then rubbish.
TEST(HubHostile, AListenersGarbageHurtsNobodyElse) {
  Process a({.role = "coordinator"});
  Process b({.role = "worker"});
  const PeerId honest = b.hub->dial(a.hub->listen("tcp://127.0.0.1:0"), {});
  ASSERT_TRUE(b.witness.wait_up(honest));
  std::mt19937_64 random(5);
  for (int i = 0; i < 20; ++i) {
    RawListener raw;
    const PeerId hostile = b.hub->dial(raw.endpoint(), {});
    raw.welcome();
    ASSERT_TRUE(b.witness.wait_up(hostile));
    Taken taken;
    b.hub->fetch(hostile, "v", {.deadline = 300ms}, taken.taker());
    for (int frame = 0; frame < 100; ++frame) {
      raw.send(random_message(random, raw.session()));
    }
    (void)taken.wait();
  }
  b.hub->send(honest, share(std::string("still here")));
  EXPECT_TRUE(a.witness.wait_records(1, 1));
}

TEST(HubHostile, AValueWithAWrongHashIsCorruptAndItsHolderIsNamed) {
  RawListener holder;
  Process b({.role = "worker", .lease = 20s});
  const PeerId peer = b.hub->dial(holder.endpoint(), {});
  holder.welcome();
  ASSERT_TRUE(b.witness.wait_up(peer));
  const std::string bytes = "what was asked for";
  const std::uint64_t hash = xxh3_64(std::as_bytes(std::span(bytes)));
  Taken taken;
  b.hub->fetch(peer, "latents 7", {}, taken.taker());
  holder.answer("What was asked for", hash);
  const Fetched wrong = taken.wait();
  EXPECT_EQ(wrong.status, FetchStatus::corrupt);
  EXPECT_TRUE(wrong.value.empty());
  EXPECT_NE(wrong.what.find(holder.endpoint()), std::string::npos)
      << wrong.what;
  // The link goes on, and the same bytes with their hash are taken.
  b.hub->fetch(peer, "latents 7", {}, taken.taker());
  holder.answer(bytes, hash);
  const Fetched right = taken.wait();
  ASSERT_EQ(right.status, FetchStatus::found) << right.what;
  EXPECT_EQ(text_of(right.value.at(0).span()), bytes);
}

TEST(HubHostile, SessionsAreNotForOtherKeys) {
  LinkKeys listener = make_keys();
  const LinkKeys worker = make_keys();
  const LinkKeys other = make_keys();
  listener.allowed = {{worker.own.public_key, "worker"},
                      {other.own.public_key, "worker"}};
  Process a({.role = "coordinator", .keys = listener});
  const std::string endpoint = a.hub->listen("tcp://127.0.0.1:0");
  RawPeer first(worker, listener.own.public_key, endpoint);
  const SessionId session = greet(first, 99);
  ASSERT_NE(session.listener, 0U);
  RawPeer second(other, listener.own.public_key, endpoint);
  second.send({frame_text(
      {.kind = FrameKind::record, .session = session, .a = 1, .b = 1, .c = 1},
      "stolen")});
  first.send({frame_text(
      {.kind = FrameKind::record, .session = session, .a = 1, .b = 1, .c = 1},
      "mine")});
  ASSERT_TRUE(a.witness.wait_records(1, 1));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(a.witness.look(1).records, std::vector<std::string>{"mine"});
}

}  // namespace
}  // namespace troupe::net
