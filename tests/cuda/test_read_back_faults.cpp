#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/reduction.h"
#include "tests/cuda/backend_support.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/emulator/streams.h"

// What a host reads while the queue goes on, on devices that lag, count and
// fail as they are told.

namespace troupe::kernels {
namespace {

class ReadBackFaults : public testing::Test {
 protected:
  // Ends the program when something was not given back.
  void TearDown() override { emulator::configure(emulator::default_config()); }
};

/// Queues work that only sets `has_run`.
void probe(ExecContext& ctx, bool& has_run) {
  cuda::check(emulator::enqueue(cuda::Backend::of(ctx).stream(), "a probe",
                                [&] { has_run = true; }),
              "probe");
}

bool is_poison(const Tensor& host) {
  return std::ranges::all_of(
      host.bytes(), [](std::byte byte) { return byte == std::byte{0xff}; });
}

TEST_F(ReadBackFaults, RecordingsAreNotHeldForWhoeverOnlyTakesMarks) {
  ExecContext ctx(1, kGpu);
  const Tensor start = random({100}, DType::f32, 3);
  Tensor x = upload(ctx, start);
  int steps = 0;
  for (std::int64_t more = 1 << 19; more <= 1 << 24; more *= 2) {
    for (int i = 0; i < 4; ++i) {
      ctx.replay(nullptr, Key{static_cast<std::uint64_t>(more)}, [&] {
        const Workspace::Scope scope(ctx.workspace());
        Tensor wide = ctx.workspace().take({more}, DType::f32).slice(0, 100);
        step(ctx, x, wide);
      });
      ++steps;
      ctx.mark().wait();
    }
    EXPECT_LE(emulator::graphs_held(), 1U) << more;
  }
  expect_same_bits(download(ctx, x), after_steps(start, steps));
}

TEST_F(ReadBackFaults, NothingWaitsAndNothingIsThereTooEarly) {
  ExecContext ctx(1, kGpu);
  const Tensor there = upload(ctx, filled(500, 1));
  (void)read_back(ctx, there);
  ctx.synchronize();
  const emulator::Counters before = emulator::counters(0);
  const Tensor read = read_back(ctx, there);  // where 500 ones have been
  QueueMark mark = ctx.mark();
  EXPECT_TRUE(is_poison(read));
  const emulator::Counters after = emulator::counters(0);
  EXPECT_EQ(after.operations - before.operations, 1U);
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_EQ(after.pageable_copies, before.pageable_copies);
  EXPECT_EQ(after.pinned_changes, before.pinned_changes);
  mark.wait();
  EXPECT_EQ(emulator::counters(0).host_waits - before.host_waits, 1U);
  expect_same_bits(read, filled(500, 1));
}

TEST_F(ReadBackFaults, LaterWorkDelaysNoMark) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulator::configure({.seed = seed});
    ExecContext ctx(1, kGpu);
    Tensor x = upload(ctx, filled(10, 1));
    bool is_before = false;
    bool is_behind = false;
    probe(ctx, is_before);
    QueueMark polled = ctx.mark();
    probe(ctx, is_behind);
    EXPECT_FALSE(polled.has_passed());
    while (!polled.has_passed()) {
    }
    EXPECT_TRUE(is_before);
    EXPECT_FALSE(is_behind);
    QueueMark waited = ctx.mark();
    bool is_last = false;
    probe(ctx, is_last);
    waited.wait();
    EXPECT_TRUE(is_behind);
    EXPECT_FALSE(is_last);
  }
}

TEST_F(ReadBackFaults, APollDoesNotWait) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(10, 1));
  const std::uint64_t waits = emulator::counters(0).host_waits;
  QueueMark mark = ctx.mark();
  while (!mark.has_passed()) {
  }
  EXPECT_EQ(emulator::counters(0).host_waits, waits);
}

TEST_F(ReadBackFaults, WhatIsKeptLivesUntilTheMarkHasPassedAndNoLonger) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(10, 1));
  ctx.keep(x);
  QueueMark mark = ctx.mark();
  int polls = 0;
  while (!mark.has_passed()) {
    EXPECT_EQ(x.owner().use_count(), 2);
    ++polls;
  }
  EXPECT_GT(polls, 0);
  EXPECT_EQ(x.owner().use_count(), 1);
}

TEST_F(ReadBackFaults, AMarkThatEndsEarlyWaitsForItsMomentAlone) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(10, 1));
  bool is_before = false;
  bool is_behind = false;
  probe(ctx, is_before);
  ctx.keep(x);
  {
    const QueueMark mark = ctx.mark();
    probe(ctx, is_behind);
    EXPECT_FALSE(is_before);
  }
  EXPECT_TRUE(is_before);
  EXPECT_FALSE(is_behind);
  EXPECT_EQ(x.owner().use_count(), 1);
}

TEST_F(ReadBackFaults, ALostDeviceShowsInEveryMark) {
  for (const cudaError_t error :
       {cudaErrorLaunchFailure, cudaErrorECCUncorrectable}) {
    {
      ExecContext ctx(1, kGpu);
      Tensor x = upload(ctx, filled(10, 1));
      QueueMark passed = ctx.mark();
      passed.wait();
      ctx.keep(x);
      Tensor read = read_back(ctx, x);
      QueueMark polled = ctx.mark();
      QueueMark waited = ctx.mark();
      {
        const QueueMark dropped = ctx.mark();
        emulator::lose_device(0, 0, error);
      }
      for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(code_of([&] { (void)polled.has_passed(); }),
                  Errc::device_lost);
        EXPECT_EQ(code_of([&] { waited.wait(); }), Errc::device_lost);
        EXPECT_EQ(code_of([&] { (void)ctx.mark(); }), Errc::device_lost);
        EXPECT_EQ(code_of([&] { (void)read_back(ctx, x); }), Errc::device_lost);
      }
      EXPECT_EQ(x.owner().use_count(), 2);
      polled = {};
      EXPECT_EQ(x.owner().use_count(), 1);
      EXPECT_TRUE(passed.has_passed());
    }
    emulator::configure(emulator::default_config());
  }
}

TEST_F(ReadBackFaults, TheLossIsFoundByPolling) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(10, 1));
  ctx.synchronize();
  emulator::lose_device(0, 1);
  const Tensor read = read_back(ctx, x);
  const Tensor again = read_back(ctx, x);
  QueueMark mark = ctx.mark();
  EXPECT_EQ(code_of([&] {
              while (!mark.has_passed()) {
              }
            }),
            Errc::device_lost);
}

TEST_F(ReadBackFaults, PinnedMemoryIsTakenOnceForTheMostThatIsHeld) {
  ExecContext ctx(1, kGpu);
  const Tensor there = upload(ctx, random({5000}, DType::f32, 1));
  const Tensor slightly_smaller = there.slice(0, 4500);
  ctx.synchronize();
  const std::uint64_t before = emulator::counters(0).pinned_changes;
  for (int round = 0; round < 5; ++round) {
    // Alive together: three pieces of memory.
    const Tensor reads[] = {read_back(ctx, there), read_back(ctx, there),
                            read_back(ctx, slightly_smaller)};
    if (round % 2 == 0) {
      ctx.mark().wait();
      expect_same_bits(reads[0], reads[1]);
      expect_same_bits(reads[0].slice(0, 4500), reads[2]);
    }  // else they are let go before the copies are done
  }
  EXPECT_EQ(emulator::counters(0).pinned_changes - before, 3U);
}

TEST_F(ReadBackFaults, PinnedMemoryIsGivenBackWithTheLastThatUsesIt) {
  Tensor last;
  {
    ExecContext ctx(1, kGpu);
    const Tensor there = upload(ctx, filled(10, 1));
    last = read_back(ctx, there);
    (void)read_back(ctx, there);
  }
  // Staging and two tensors of ours were taken; one change is staging's end.
  EXPECT_EQ(emulator::counters(0).pinned_changes, 4U);
  expect_same_bits(last, filled(10, 1));
  last = {};
  EXPECT_EQ(emulator::counters(0).pinned_changes, 6U);
}

TEST_F(ReadBackFaults, ContextsShareNoPinnedMemory) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulator::configure({.seed = seed});
    ExecContext a(1, kGpu);
    ExecContext b(1, kGpu);
    const Tensor on_a = upload(a, filled(10, 1));
    const Tensor on_b = upload(b, filled(10, 2));
    (void)read_back(a, on_a);  // its copy is still to come
    const Tensor read = read_back(b, on_b);
    b.mark().wait();
    a.synchronize();
    expect_same_bits(read, filled(10, 2));
  }
}

TEST_F(ReadBackFaults, AFailedCallLeavesEverythingUsable) {
  ExecContext ctx(1, kGpu);
  const Tensor there = upload(ctx, filled(10, 1));
  ctx.keep(there);
  ctx.synchronize();
  const std::uint64_t before = emulator::counters(0).pinned_changes;
  ctx.keep(there);
  emulator::fail_call("cudaMallocHost", cudaErrorMemoryAllocation);
  emulator::fail_call("cudaMallocHost", cudaErrorMemoryAllocation);
  EXPECT_EQ(code_of([&] { (void)read_back(ctx, there); }), Errc::out_of_memory);
  emulator::fail_call("cudaMemcpyAsync", cudaErrorInvalidValue);
  EXPECT_EQ(code_of([&] { (void)read_back(ctx, there); }), Errc::internal);
  for (const char* function : {"cudaEventCreateWithFlags", "cudaEventRecord"}) {
    emulator::fail_call(function, cudaErrorInvalidValue);
    EXPECT_EQ(code_of([&] { (void)ctx.mark(); }), Errc::internal);
    EXPECT_EQ(there.owner().use_count(), 2);
  }
  const Tensor read = read_back(ctx, there);
  ctx.mark().wait();
  expect_same_bits(read, filled(10, 1));
  EXPECT_EQ(there.owner().use_count(), 1);
  EXPECT_EQ(emulator::counters(0).pinned_changes - before, 1U);
}

TEST_F(ReadBackFaults, WhatNobodyHoldsIsReleasedWhenNoMoreCanBePinned) {
  ExecContext ctx(1, kGpu);
  const Tensor there = upload(ctx, filled(10'000, 1));
  for (const std::int64_t length : {10, 2'000, 3'000}) {  // 4, 8 and 16 KiB
    (void)read_back(ctx, there.slice(0, length));
  }
  const Tensor held = read_back(ctx, there.slice(0, 1'000));
  const std::uint64_t before = emulator::counters(0).pinned_changes;
  emulator::fail_call("cudaMallocHost", cudaErrorMemoryAllocation);
  const Tensor read = read_back(ctx, there);
  EXPECT_EQ(emulator::counters(0).pinned_changes - before, 2U + 1U);
  ctx.mark().wait();
  expect_same_bits(held, filled(1'000, 1));
  expect_same_bits(read, filled(10'000, 1));
}

TEST_F(ReadBackFaults, ReadingsAreOneTransferThatNobodyWaitsFor) {
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, filled(100, 2));
  Readings readings(ctx, 4);
  for (int i = 0; i < 4; ++i) {
    readings.sum_squares(x);
  }
  const emulator::Counters before = emulator::counters(0);
  readings.send();
  QueueMark mark = ctx.mark();
  bool is_behind = false;
  probe(ctx, is_behind);
  const emulator::Counters after = emulator::counters(0);
  EXPECT_EQ(after.operations - before.operations, 2U);  // one is the probe
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_TRUE(std::isnan(readings.values()[3]));
  mark.wait();
  EXPECT_FALSE(is_behind);
  for (const double value : readings.values()) {
    EXPECT_EQ(value, 400.0);
  }
}

TEST_F(ReadBackFaults, WaitingForReadingsLetsGoOfNothingThatIsKept) {
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, filled(100, 2));
  ctx.keep(x);
  Readings readings(ctx, 1);
  readings.sum_squares(x);
  EXPECT_EQ(readings.wait()[0], 400.0);
  EXPECT_EQ(x.owner().use_count(), 2);
}

}  // namespace
}  // namespace troupe::kernels
