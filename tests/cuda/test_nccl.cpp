#include <gmock/gmock.h>

#include <atomic>
#include <mutex>

#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "net/nccl.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/nccl.h"
#include "tests/net/communicator_world.h"

// NCCL's communicator with the emulated NCCL on emulated GPUs, one for each
// rank.

namespace troupe::net {
namespace {

using emulator::NcclFaults;

constexpr int kMostRanks = 16;

class DeviceMemory final : public CommunicatorMemory {
 public:
  DeviceMemory(ExecContext& ctx, std::size_t bytes)
      : ctx_(ctx),
        tensor_(ctx.empty({static_cast<std::int64_t>(bytes)}, DType::u8)) {
    ctx_.synchronize();  // the allocation is queued
  }

  std::span<std::byte> span() override { return tensor_.bytes(); }
  void write(std::span<const std::byte> bytes) override {
    if (!bytes.empty()) {
      const auto* const first =
          reinterpret_cast<const std::uint8_t*>(bytes.data());
      kernels::copy(
          ctx_, Tensor::from(std::span(first, bytes.size()), tensor_.shape()),
          tensor_);
      ctx_.synchronize();
    }
  }
  std::vector<std::byte> read() override {
    if (tensor_.empty()) {
      return {};
    }
    const Tensor host = kernels::on_host(ctx_, tensor_);
    return {host.bytes().begin(), host.bytes().end()};
  }

 private:
  ExecContext& ctx_;
  Tensor tensor_;
};

class NcclRanks final : public CommunicatorWorld {
 public:
  explicit NcclRanks(int ranks) : ranks_(ranks) {
    if (emulator::config().devices < kMostRanks) {
      emulator::Config config = emulator::default_config();
      config.devices = kMostRanks;
      emulator::configure(config);
    }
    id_ = make_nccl_id();
    for (int rank = 0; rank < ranks; ++rank) {
      contexts_.push_back(
          std::make_unique<ExecContext>(1, Device{DeviceKind::cuda, rank}));
    }
  }

  [[nodiscard]] NcclOptions options(int rank) {
    return {.rank = rank,
            .world_size = ranks_,
            .id = id_,
            .device = rank,
            .deadline = patience(),
            .abort_patience = std::chrono::milliseconds(400)};
  }

  std::unique_ptr<Communicator> make(int rank) override {
    return make_nccl_communicator(options(rank));
  }

  std::unique_ptr<CommunicatorMemory> memory(int rank,
                                             std::size_t bytes) override {
    return std::make_unique<DeviceMemory>(
        *contexts_[static_cast<std::size_t>(rank)], bytes);
  }

 private:
  int ranks_;
  NcclId id_{};
  std::vector<std::unique_ptr<ExecContext>> contexts_;
};

CommunicatorKind nccl_kind() {
  return {"nccl", [](int ranks) { return std::make_unique<NcclRanks>(ranks); }};
}

class NcclTest : public testing::Test {
 protected:
  ~NcclTest() override { emulator::set_nccl_faults({}); }

  /// Waits for what was left behind.
  static void expect_all_ended() {
    while (emulator::nccl_communicators() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

TimePoint soon() {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
}

/// Gives eight bytes of each rank to all.
void gather(TestRank& self, Communicator::Tag tag, TimePoint deadline) {
  const auto all = self.memory(std::vector<std::byte>(
      8 * static_cast<std::size_t>(self.communicator->world_size())));
  std::vector<std::span<std::byte>> parts;
  for (int rank = 0; rank < self.communicator->world_size(); ++rank) {
    parts.push_back(all->span().subspan(static_cast<std::size_t>(rank) * 8, 8));
  }
  self.communicator->all_gather(
      {tag, deadline}, parts[static_cast<std::size_t>(self.rank())], parts);
}

TEST_F(NcclTest, SaysItsVersion) {
  EXPECT_THAT(nccl_version(), testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
}

TEST_F(NcclTest, QueuesMayBeLate) {
  emulator::set_nccl_faults({.most_looks = 300});
  expect_no_errors(run_ranks(nccl_kind(), 5, [](TestRank& self) {
    for (Communicator::Tag tag = 0; tag < 20; ++tag) {
      gather(self, tag, patience());
    }
  }));
  expect_all_ended();
}

TEST_F(NcclTest, ARankThatFailsEndsAll) {
  for (int nth = 1; nth <= 6; ++nth) {
    emulator::set_nccl_faults({.failing_rank = 1, .failing_group = nth});
    const auto errors = run_ranks(nccl_kind(), 3, [](TestRank& self) {
      for (Communicator::Tag tag = 1; tag < 10; ++tag) {
        gather(self, tag, soon());
      }
    });
    for (const auto& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Errc::unreachable) << error->what();
    }
    for (const std::size_t other : {0, 2}) {
      EXPECT_THAT(errors[other]->message(), testing::HasSubstr("rank 1"));
    }
    expect_all_ended();
  }
}

TEST_F(NcclTest, AnotherCountThanWasSaidEndsAtTheDeadline) {
  emulator::set_nccl_faults({.mismatched_rank = 1, .mismatched_group = 2});
  const auto errors = run_ranks(nccl_kind(), 2, [](TestRank& self) {
    gather(self, 1, patience());
    gather(self, 2, soon());
  });
  for (const std::size_t rank : {0, 1}) {
    ASSERT_TRUE(errors[rank]);
    EXPECT_EQ(errors[rank]->code(), Errc::unreachable);
    EXPECT_THAT(errors[rank]->message(),
                testing::HasSubstr("rank " + std::to_string(1 - rank)));
  }
  expect_all_ended();
}

TEST_F(NcclTest, AnAbortThatHangsIsLeftBehind) {
  std::atomic<int> num_hanging = 0;
  {
    NcclRanks world(2);
    std::vector<std::thread> threads;
    for (const int rank : {0, 1}) {
      threads.emplace_back([&, rank] {
        NcclOptions options = world.options(rank);
        options.abort_patience = std::chrono::milliseconds(50);
        options.on_hanging_abort = [&] { ++num_hanging; };
        const auto it = make_nccl_communicator(options);
        it->barrier({1, patience()});
        emulator::set_nccl_faults({.aborts_hang = true});
        const auto memory = world.memory(rank, 8);
        // Nobody sends.
        EXPECT_THROW(it->receive({2, soon()}, 1 - rank, memory->span()), Error);
        EXPECT_THROW(it->check(), Error);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  EXPECT_EQ(num_hanging, 2);
  EXPECT_EQ(emulator::hanging_nccl_aborts(), 2U);
  emulator::set_nccl_faults({});
  expect_all_ended();
}

TEST_F(NcclTest, ARankThatNeverJoinsIsNamed) {
  NcclRanks world(3);
  NcclOptions options = world.options(0);
  options.deadline = soon();
  try {
    const auto it = make_nccl_communicator(options);
    ADD_FAILURE() << "it did not wait";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unreachable);
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 or rank 2"));
  }
  expect_all_ended();
}

TEST_F(NcclTest, TwoRanksOfOneGpuAreRefused) {
  NcclRanks world(2);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      NcclOptions options = world.options(rank);
      options.device = 0;
      options.deadline = soon();
      EXPECT_THROW((void)make_nccl_communicator(options), Error);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  expect_all_ended();
}

}  // namespace

std::vector<CommunicatorKind> communicator_kinds() { return {nccl_kind()}; }

}  // namespace troupe::net
