#include "net/socket_communicator.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "tests/net/link_keys.h"

// What only ranks that are processes meet. The conformance suite is
// communicator_cases.cpp.

namespace troupe::net {
namespace {

constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

TimePoint in_a_minute() {
  return std::chrono::steady_clock::now() + std::chrono::minutes(1);
}

TimePoint in_a_moment() {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
}

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string receive_text(Communicator& it, const Communicator::Call& call,
                         int from, std::size_t size) {
  std::string text(size, ' ');
  it.receive(call, from, std::as_writable_bytes(std::span(text)));
  return text;
}

Errc code_of_failure(const std::function<void()>& fails,
                     const std::string& says = "") {
  try {
    fails();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(says));
    return error.code();
  }
  ADD_FAILURE() << "it did not fail";
  return Errc::internal;
}

/// Endpoints as messages of one size.
void tell(int socket, const std::string& endpoint) {
  char text[128] = {};
  endpoint.copy(text, sizeof(text) - 1);
  EXPECT_EQ(write(socket, text, sizeof(text)),
            static_cast<ssize_t>(sizeof(text)));
}

std::string hear(int socket) {
  char text[128] = {};
  EXPECT_EQ(recv(socket, text, sizeof(text), MSG_WAITALL),
            static_cast<ssize_t>(sizeof(text)));
  return text;
}

/// Joins two processes' ranks whose other end is `socket`.
std::unique_ptr<Communicator> join_two(int rank, int socket) {
  const auto listener = listen_as_rank(kAnyPort);
  tell(socket, listener->endpoint());
  std::vector<RankAddress> addresses(2);
  addresses[static_cast<std::size_t>(1 - rank)].endpoint = hear(socket);
  return listener->join({rank, addresses, 1});
}

TEST(SocketCommunicator, AKilledProcessIsNoticedLongBeforeTheDeadline) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  // Before this process has threads.
  const pid_t other = fork();
  if (other == 0) {
    const auto it = join_two(1, ends[1]);
    it->barrier({1, in_a_minute()});
    while (true) {
      pause();
    }
  }
  const auto it = join_two(0, ends[0]);
  it->barrier({1, in_a_minute()});
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_EQ(code_of_failure(
                [&] {
                  receive_text(*it,
                               {2, std::chrono::steady_clock::now() +
                                       std::chrono::hours(1)},
                               1, 8);
                },
                "rank 1 has ended: its connection was closed"),
            Errc::unreachable);
  close(ends[0]);
  close(ends[1]);
}

TEST(SocketCommunicator, WhatBearsAnotherEpochIsDropped) {
  const auto listener = listen_as_rank(kAnyPort);
  const auto old_listener = listen_as_rank(kAnyPort);
  const auto new_listener = listen_as_rank(kAnyPort);
  const std::vector<RankAddress> old_addresses = {{listener->endpoint()},
                                                  {old_listener->endpoint()}};
  const std::vector<RankAddress> addresses = {{listener->endpoint()},
                                              {new_listener->endpoint()}};
  const auto zero = listener->join({0, addresses, 8});
  auto old = old_listener->join({1, old_addresses, 7});
  old->send({1, in_a_minute()}, 0, bytes_of_text("old"));
  const auto one = new_listener->join({1, addresses, 8});
  one->send({1, in_a_minute()}, 0, bytes_of_text("new"));
  EXPECT_EQ(receive_text(*zero, {1, in_a_minute()}, 1, 3), "new");
  old.reset();
  one->send({2, in_a_minute()}, 0, bytes_of_text("again"));
  EXPECT_EQ(receive_text(*zero, {2, in_a_minute()}, 1, 5), "again");
}

TEST(SocketCommunicator, WithoutAnAllowedKeyARankIsNotHeard) {
  LinkKeys keys = make_keys();
  keys.allowed = {{keys.own.public_key, "worker"}};
  const LinkKeys strange = make_keys();
  const auto listener = listen_as_rank(kAnyPort, keys);
  const auto strange_listener = listen_as_rank(kAnyPort, strange);
  const std::vector<RankAddress> addresses = {
      {listener->endpoint(), keys.own.public_key},
      {strange_listener->endpoint(), strange.own.public_key}};
  const auto zero = listener->join({0, addresses, 8});
  const auto one = strange_listener->join({1, addresses, 8});
  one->send({1, in_a_minute()}, 0, bytes_of_text("let me in"));
  EXPECT_EQ(code_of_failure(
                [&] {
                  receive_text(*zero, {1, in_a_moment()}, 1, 9);
                },
                "rank 1 did not answer"),
            Errc::unreachable);
}

TEST(SocketCommunicator, ALateRankGetsFourMebibytesInAdvanceAtMost) {
  const auto listener = listen_as_rank(kAnyPort);
  const auto late_listener = listen_as_rank(kAnyPort);
  const std::vector<RankAddress> addresses = {{listener->endpoint()},
                                              {late_listener->endpoint()}};
  const auto zero = listener->join({0, addresses, 8});
  const auto late = late_listener->join({1, addresses, 8});
  const std::string much((std::size_t{4} << 20U) + 1, 'x');
  zero->send({1, in_a_minute()}, 1, bytes_of_text(much).first(1U << 20U));
  EXPECT_EQ(receive_text(*late, {1, in_a_minute()}, 0, 1U << 20U),
            much.substr(0, 1U << 20U));
  EXPECT_EQ(code_of_failure(
                [&] {
                  zero->send({2, in_a_moment()}, 1, bytes_of_text(much));
                },
                "rank 1 did not answer"),
            Errc::unreachable);
}

TEST(SocketCommunicator, RefusesWhatIsNotAllowed) {
  const auto refuses = [](const std::function<void()>& call,
                          const std::string& says) {
    EXPECT_EQ(code_of_failure(call, says), Errc::invalid_argument);
  };
  refuses([] { (void)listen_as_rank("tcp://0.0.0.0:*"); }, "without keys");
  refuses([] { (void)listen_as_rank("inproc://a"); }, "need no socket");
  refuses([] { (void)listen_as_rank("somewhere"); }, "endpoint");
  const auto listener = listen_as_rank(kAnyPort);
  refuses([&] { (void)listener->join({2, {{}, {}}, 1}); }, "rank 2 of 2");
  EXPECT_NO_THROW((void)listener->join({0, {{}}, 1}));
  refuses([&] { (void)listener->join({0, {{}}, 1}); }, "joins once");
  refuses(
      [&] {
        (void)listen_as_rank(kAnyPort)->join(
            {0, {{}, {"tcp://198.51.100.1:7010"}}, 1});
      },
      "without keys");
}

}  // namespace
}  // namespace troupe::net
