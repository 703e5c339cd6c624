#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>

#include "net/nccl.h"
#include "net/socket_communicator.h"
#include "tests/net/communicator_world.h"
#include "tests/net/link_keys.h"

namespace troupe::net {
namespace {

/// Each rank has sockets of its own, as in a process of its own.
class SocketRanks final : public CommunicatorWorld {
 public:
  SocketRanks(int ranks, bool is_ipc, bool has_keys) {
    static std::atomic<int> num_worlds = 0;
    epoch_ = std::random_device{}();
    folder_ = std::filesystem::temp_directory_path() /
              ("troupe_ranks_" + std::to_string(getpid()) + "_" +
               std::to_string(num_worlds++));
    std::optional<LinkKeys> keys;
    if (has_keys) {
      keys = make_keys();
      keys->allowed = {{keys->own.public_key, "worker"}};
    }
    for (int rank = 0; rank < ranks; ++rank) {
      listeners_.push_back(listen_as_rank(
          is_ipc ? "ipc://" + (folder_ / std::to_string(rank)).string()
                 : "tcp://127.0.0.1:*",
          keys));
      addresses_.push_back({listeners_.back()->endpoint()});
      if (has_keys) {
        addresses_.back().key = keys->own.public_key;
      }
    }
  }
  ~SocketRanks() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Communicator> make(int rank) override {
    return listeners_[static_cast<std::size_t>(rank)]->join(
        {rank, addresses_, epoch_});
  }

 private:
  std::uint64_t epoch_ = 0;
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<RankListener>> listeners_;
  std::vector<RankAddress> addresses_;
};

CommunicatorKind socket_kind(const std::string& name, bool is_ipc,
                             bool has_keys) {
  return {name, [=](int ranks) {
            return std::make_unique<SocketRanks>(ranks, is_ipc, has_keys);
          }};
}

// With the real library, or without any; not with the emulated one.
TEST(Nccl, SaysItsVersionOrWhyItIsNotThere) {
  try {
    EXPECT_THAT(nccl_version(), testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_THAT(error.message(), testing::HasSubstr("NCCL"));
    EXPECT_THAT(error.message(), testing::Not(testing::HasSubstr("\n")));
    EXPECT_FALSE(error.hint().empty());
  }
}

}  // namespace

std::vector<CommunicatorKind> communicator_kinds() {
  return {inproc_kind(), socket_kind("tcp", false, false),
          socket_kind("ipc_with_keys", true, true)};
}

}  // namespace troupe::net
