// Ranks on emulated GPUs that die, hang or are slow in a pass: the others
// compute it with the same bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/actors/delegating_shard.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/ensemble.h"
#include "tests/rank_faults.h"

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;

TimePoint now() { return std::chrono::steady_clock::now(); }

/// A pass as a worker computes it: again without a device that is lost.
/// again_at: when it began again.
std::vector<Tensor> compute(Ensemble& ensemble, TimePoint* again_at = nullptr) {
  while (true) {
    try {
      return ensemble.together();
    } catch (const Error&) {
      if (!ensemble.team().can_run_again()) {
        throw;
      }
      if (again_at != nullptr) {
        *again_at = now();
      }
    }
  }
}

std::vector<int> first(int count) {
  std::vector<int> devices;
  for (int device = 0; device < count; ++device) {
    devices.push_back(device);
  }
  return devices;
}

using DeviceTeamFaults = EmulatedTeam;

// Networks, sizes, ranks, victims, faults and their moments are drawn. What an
// emulated pass takes is the host's time.
TEST_F(DeviceTeamFaults, LeaveTheBytesOfTheOthersAsTheyWere) {
  constexpr int kFaults = 3;
  TrialTimes again[kFaults];
  TrialTimes passes;
  constexpr int kOrdinary = 6;
  const int cases = num_cases(kOrdinary);
  for (int seed = 0; seed < cases; ++seed) {
    Draw draw(static_cast<unsigned>(seed) + 1000);
    const int ranks =
        static_cast<int>(std::min(draw.number(2, 5), draw.number(2, 5)));
    const int victim = static_cast<int>(draw.number(1, ranks - 1));
    const auto fault = static_cast<RankFault>(seed % kFaults);
    set_up(ranks, static_cast<unsigned>(seed), draw.coin());
    const Drawn drawn = draw.network(128 * ranks, DeviceKind::cuda);
    Ensemble ensemble(drawn, DType::bf16, draw.number(1, 2), first(ranks));
    if (cases > kOrdinary) {  // beside no other test: as in production
      ensemble.team().set_patience({});
    }
    const std::vector<Tensor> want = ensemble.alone();
    const std::uint64_t before = emulator::counters(victim).operations;
    expect_same(ensemble.together(), want);
    const auto operations = static_cast<std::int64_t>(
        emulator::counters(victim).operations - before);
    const auto moment =
        static_cast<std::uint64_t>(draw.number(0, operations - 1));
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.what + " " +
                 to_string(drawn.latents) + ", rank " + std::to_string(victim) +
                 " of " + std::to_string(ranks) + " " + name_of(fault) +
                 " at operation " + std::to_string(moment));
    if (fault == RankFault::dies) {
      emulator::lose_device(victim, moment);
    } else if (fault == RankFault::hangs) {
      emulator::hang_device(victim, moment);
    } else {
      emulator::slow_down(victim,
                          std::chrono::microseconds(draw.number(1, 100)));
    }
    // The first pass had more operations.
    do {
      const TimePoint begin = now();
      TimePoint again_at{};
      expect_same(compute(ensemble, &again_at), want);
      const auto at = emulator::time_of_fault(victim);
      if (at && again_at != TimePoint{}) {
        again[seed % kFaults].add(again_at - *at);
        passes.add(now() - again_at);
      } else {
        passes.add(now() - begin);
      }
    } while (fault != RankFault::is_slow && !emulator::time_of_fault(victim));
    const std::vector<Device> others = ensemble.team().other_devices();
    const bool is_there =
        std::ranges::find(others, gpu(victim)) != others.end();
    EXPECT_EQ(is_there, fault == RankFault::is_slow);
    EXPECT_EQ(others.size(),
              static_cast<std::size_t>(ranks) - (is_there ? 1 : 2));
    // And so it goes on.
    const auto blocks = ensemble.network(ensemble.lead()).info().blocks.size();
    expect_same(ensemble.together_cut(static_cast<int>(
                    draw.number(0, static_cast<std::int64_t>(blocks)))),
                want);
    constexpr int kPrinted = 60;
    if ((seed + 1) % kPrinted == 0 || seed + 1 == cases) {
      again[0].print("dies, until the pass began again");
      again[1].print("hangs, until the pass began again");
      passes.print("passes");
      std::fflush(stdout);
    }
  }
}

TEST_F(DeviceTeamFaults, OfTheLeadEndThePass) {
  for (const bool hangs : {false, true}) {
    Draw draw(5);
    set_up(3, hangs ? 7 : 8);
    Ensemble ensemble(draw.network(3 * 128, DeviceKind::cuda), DType::bf16, 1,
                      first(3));
    (void)ensemble.together();
    if (hangs) {
      emulator::hang_device(0, 30);
    } else {
      emulator::lose_device(0, 30);
    }
    const Error error = error_of(ensemble);
    EXPECT_EQ(error.code(), Errc::device_lost) << error.what();
    EXPECT_EQ(error.place(), "cuda:0") << error.what();
    EXPECT_FALSE(ensemble.team().can_run_again());
    EXPECT_EQ(ensemble.team().other_devices().size(), 2U);
  }
}

TEST_F(DeviceTeamFaults, MayComeOneAfterTheOther) {
  Draw draw(6);
  set_up(4, 9);
  Ensemble ensemble(draw.network(4 * 128, DeviceKind::cuda), DType::bf16, 1,
                    first(4));
  const std::vector<Tensor> want = ensemble.alone();
  expect_same(ensemble.together(), want);
  emulator::lose_device(2, 20);
  emulator::hang_device(1, 25);
  expect_same(compute(ensemble), want);
  expect_same(compute(ensemble), want);
  EXPECT_EQ(ensemble.team().other_devices(), std::vector<Device>{gpu(3)});
  emulator::lose_device(3, 10);
  expect_same(compute(ensemble), want);
  EXPECT_TRUE(ensemble.team().other_devices().empty());
  expect_same(compute(ensemble), want);
}

TEST_F(DeviceTeamFaults, OfMemoryLetNobodyLeave) {
  Draw draw(7);
  set_up(2, 10);
  Ensemble ensemble(draw.network(2 * 128, DeviceKind::cuda), DType::bf16, 1,
                    first(2));
  const std::vector<Tensor> want = ensemble.alone();
  {
    ExecContext other(1, gpu(1));
    const auto room = static_cast<std::int64_t>(
        emulator::default_config().memory_bytes - emulator::bytes_in_use(1));
    const Tensor rest = other.empty({room}, DType::u8);
    const Error error = error_of(ensemble);
    EXPECT_EQ(error.code(), Errc::device_full) << error.what();
  }
  EXPECT_FALSE(ensemble.team().can_run_again());
  EXPECT_EQ(ensemble.team().other_devices().size(), 1U);
  expect_same(ensemble.together(), want);
}

TEST_F(DeviceTeamFaults, OfAQueueDoNotHoldUpAStop) {
  Draw draw(8);
  set_up(3, 11);
  Ensemble ensemble(draw.network(3 * 128, DeviceKind::cuda), DType::bf16, 1,
                    first(3));
  // Nobody is lost for standing still.
  ensemble.team().set_patience({.least = std::chrono::hours(1)});
  (void)ensemble.together();
  emulator::hang_device(1, 40);
  std::thread other([&] {
    while (!emulator::time_of_fault(1)) {
      std::this_thread::yield();
    }
    ensemble.lead().request_stop();
  });
  const Error error = error_of(ensemble);
  other.join();
  EXPECT_EQ(error.code(), Errc::interrupted) << error.what();
  EXPECT_NE(error.message().find("stop"), std::string::npos) << error.what();
  EXPECT_FALSE(ensemble.team().can_run_again());
}

TEST_F(DeviceTeamFaults, ThatWereNoneOnlyCostTime) {
  Draw draw(9);
  set_up(2, 12);
  Ensemble ensemble(draw.network(2 * 128, DeviceKind::cuda), DType::bf16, 1,
                    first(2));
  const std::vector<Tensor> want = ensemble.alone();
  expect_same(ensemble.together(), want);
  // Slower than the team has patience, at first.
  ensemble.team().set_patience({.least = milliseconds(2),
                                .factor = 2,
                                .grace = std::chrono::minutes(1)});
  emulator::slow_down(1, milliseconds(3));
  expect_same(compute(ensemble), want);
  EXPECT_EQ(ensemble.team().other_devices().size(), 1U);
}

/// A rank whose thread comes late to meetings and to shared tensors.
class Late final : public DelegatingShard {
 public:
  Late(ShardContext& own, unsigned seed)
      : DelegatingShard(own), engine_(seed) {}

  [[nodiscard]] Tensor share(
      const Shape& shape, DType dtype,
      const std::function<SharedBlocks(int rank)>& of_rank) override {
    be_late();
    return DelegatingShard::share(shape, dtype, of_rank);
  }
  void meet() override {
    be_late();
    DelegatingShard::meet();
  }

 private:
  void be_late() {
    if (engine_() % 4 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(engine_() % 2000));
    }
  }

  std::mt19937 engine_;
};

// A rank waits for what its peers have recorded, however late they come.
TEST_F(DeviceTeamFaults, DoNotComeOfDelays) {
  const int cases = num_cases(3);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(static_cast<unsigned>(seed) + 50);
    const int ranks = static_cast<int>(draw.number(2, 4));
    set_up(ranks, static_cast<unsigned>(seed));
    Ensemble ensemble(draw.network(128 * ranks, DeviceKind::cuda), DType::bf16,
                      1, first(ranks));
    const std::vector<Tensor> want = ensemble.alone();
    ensemble.team().run([&](ExecContext& ctx, ShardContext& shard) {
      Late late(shard, static_cast<unsigned>(seed * ranks + shard.rank()));
      ensemble.network(ctx).predict(ctx, late, ensemble.batch(ctx),
                                    ensemble.shared().outputs);
    });
    expect_same(ensemble.take_outputs(), want);
  }
}

// Without counters of the driver nobody would see that a device hangs.
TEST_F(DeviceTeamFaults, NeedADriverThatCounts) {
  emulator::Config config = emulator::default_config();
  config.devices = 2;
  config.stream_values = false;
  emulator::configure(config);
  ExecContext lead(1, gpu(0));
  const Device other = gpu(1);
  try {
    const DeviceTeam team(lead, std::span(&other, 1), DeviceOptions{});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
  }
  // The lead's queue calls nobody where the host waits for it.
  const Tensor host({1000}, DType::f32);
  Tensor there = lead.empty(host.shape(), host.dtype());
  kernels::copy(lead, host, there);
  lead.synchronize();
}

}  // namespace
}  // namespace troupe::actors
