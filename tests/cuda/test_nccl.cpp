#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "net/nccl.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/nccl.h"
#include "tests/net/device_memory.h"

// NCCL's communicator with the emulated NCCL on emulated GPUs, one for each
// rank.

namespace troupe::net {
namespace {

using emulator::NcclFaults;

constexpr int kMostRanks = 16;

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

  [[nodiscard]] ExecContext& context(int rank) {
    return *contexts_[static_cast<std::size_t>(rank)];
  }

  std::unique_ptr<Communicator> make(int rank) override {
    NcclOptions options{.rank = rank,
                        .world_size = ranks_,
                        .id = id_,
                        .device = rank,
                        .deadline = patience(),
                        .abort_patience = std::chrono::milliseconds(400)};
    if (change) {
      change(options);
    }
    return make_nccl_communicator(options);
  }

  std::unique_ptr<CommunicatorMemory> memory(int rank,
                                             std::size_t bytes) override {
    return std::make_unique<DeviceMemory>(context(rank), bytes);
  }

  std::function<void(NcclOptions&)> change;  ///< of every rank

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

/// Queues what gives `from` to the next rank and gets `to` from the one before.
void queue_ring(ExecContext& ctx, const TestRank& self, const Tensor& from,
                Tensor& to) {
  auto& it = dynamic_cast<NcclCommunicator&>(*self.communicator);
  const int ranks = it.world_size();
  const std::vector<Communicator::Send> sends = {
      {(it.rank() + 1) % ranks, from.bytes()}};
  const std::vector<Communicator::Receive> receives = {
      {(it.rank() + ranks - 1) % ranks, to.bytes()}};
  it.queue_exchange(ctx.device_backend()->queue(),
                    {.tag = 0, .deadline = patience()}, sends, receives);
}

TEST_F(NcclTest, QueuedExchangesRunInTheOrderOfTheQueue) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 3 * kRanks + 1;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    emulator::Config config = emulator::default_config();
    config.devices = kMostRanks;
    config.seed = seed;
    emulator::configure(config);
    NcclRanks world(kRanks);
    std::vector<std::uint8_t> got(kRanks);
    expect_no_errors(run_ranks(world, kRanks, [&](TestRank& self) {
      ExecContext& ctx = world.context(self.rank());
      const std::vector<std::uint8_t> own(
          1000, static_cast<std::uint8_t>(self.rank() + 1));
      Tensor mine =
          kernels::on_device(ctx, Tensor::from(std::span(own), {1000}));
      Tensor other = ctx.empty({1000}, DType::u8);
      for (int round = 0; round < kRounds; ++round) {
        queue_ring(ctx, self, mine, other);
        kernels::copy(ctx, other, mine);
      }
      const Tensor host = kernels::on_host(ctx, mine);
      self.communicator->check();
      got[static_cast<std::size_t>(self.rank())] = *host.data<std::uint8_t>();
    }));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(got[static_cast<std::size_t>(rank)],
                (rank + kRanks - kRounds % kRanks) % kRanks + 1);
    }
  }
}

TEST_F(NcclTest, AQueuedExchangeEndsWithItsCommunicator) {
  NcclRanks world(2);
  const auto errors = run_ranks(world, 2, [&](TestRank& self) {
    ExecContext& ctx = world.context(self.rank());
    const Tensor from = ctx.empty({1000}, DType::u8);
    Tensor to = ctx.empty({1000}, DType::u8);
    if (self.rank() == 0) {
      queue_ring(ctx, self, from, to);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    self.communicator->abort("somebody stopped it");
    ctx.synchronize();  // nothing is left that could hang
    self.communicator->check();
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), testing::HasSubstr("somebody stopped it"));
  }
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
    world.change = [&](NcclOptions& options) {
      options.abort_patience = std::chrono::milliseconds(50);
      options.on_hanging_abort = [&] { ++num_hanging; };
    };
    expect_no_errors(run_ranks(world, 2, [](TestRank& self) {
      Communicator& it = *self.communicator;
      it.barrier({1, patience()});
      emulator::set_nccl_faults({.aborts_hang = true});
      const auto memory = self.memory(8);
      // Nobody sends.
      EXPECT_THROW(it.receive({2, soon()}, 1 - self.rank(), memory->span()),
                   Error);
      EXPECT_THROW(it.check(), Error);
    }));
  }
  EXPECT_EQ(num_hanging, 2);
  EXPECT_EQ(emulator::hanging_nccl_aborts(), 2U);
  emulator::set_nccl_faults({});
  expect_all_ended();
}

TEST_F(NcclTest, ARankThatNeverJoinsIsNamed) {
  NcclRanks world(3);
  world.change = [](NcclOptions& options) { options.deadline = soon(); };
  const auto errors = run_ranks(world, 1, [](TestRank&) {});
  ASSERT_TRUE(errors[0]) << "it did not wait";
  EXPECT_EQ(errors[0]->code(), Errc::unreachable);
  EXPECT_THAT(errors[0]->what(), testing::HasSubstr("rank 1 or rank 2"));
  expect_all_ended();
}

TEST_F(NcclTest, TwoRanksOfOneGpuAreRefused) {
  NcclRanks world(2);
  world.change = [](NcclOptions& options) {
    options.device = 0;
    options.deadline = soon();
  };
  for (const auto& error : run_ranks(world, 2, [](TestRank&) {})) {
    EXPECT_TRUE(error);
  }
  expect_all_ended();
}

}  // namespace

std::vector<CommunicatorKind> communicator_kinds() { return {nccl_kind()}; }

}  // namespace troupe::net
