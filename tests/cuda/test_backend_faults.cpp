#include <array>
#include <functional>

#include "kernels/activation.h"
#include "kernels/cuda/launch.cuh"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/support.h"

// What only emulated GPUs do on demand: fail, run short, count.

namespace troupe::kernels {
namespace {

using Key = std::array<std::uint64_t, 1>;

class BackendFaults : public testing::Test {
 protected:
  // Ends the program when something was not given back.
  void TearDown() override { emulator::configure(emulator::default_config()); }
};

void expect_error(Errc code, const std::string& part,
                  const std::function<void()>& fn) {
  try {
    fn();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << error.what();
  }
}

TEST_F(BackendFaults, ALostDeviceIsReportedAndStaysLost) {
  for (const auto& [error, name] :
       {std::pair{cudaErrorLaunchFailure, "cudaErrorLaunchFailure"},
        std::pair{cudaErrorIllegalAddress, "cudaErrorIllegalAddress"},
        std::pair{cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable"}}) {
    {
      ExecContext ctx(1, kGpu);
      Tensor x = upload(ctx, random({10}, DType::f32, 1));
      Tensor host({10}, DType::f32);
      emulator::lose_device(0, 0, error);
      activate(ctx, x, Activation::silu, x);
      for (int again = 0; again < 2; ++again) {
        expect_error(Errc::device_lost, name, [&] { ctx.synchronize(); });
        expect_error(Errc::device_lost, name, [&] { copy(ctx, x, host); });
        expect_error(Errc::device_lost, name, [&] { copy(ctx, host, x); });
        expect_error(Errc::device_lost, name,
                     [&] { activate(ctx, x, Activation::silu, x); });
        expect_error(Errc::device_lost, name,
                     [&] { (void)ctx.empty({5}, DType::f32); });
        expect_error(Errc::device_lost, name,
                     [&] { ctx.replay(nullptr, Key{1}, [] {}); });
      }
      expect_error(Errc::device_lost, name,
                   [] { const ExecContext another(1, kGpu); });
    }
    emulator::configure(emulator::default_config());
  }
}

TEST_F(BackendFaults, TheDeviceMayBeLostAtAnyMomentOfAReplay) {
  for (std::uint64_t moment = 0; moment < 12; ++moment) {
    {
      ExecContext ctx(1, kGpu);
      Tensor x = upload(ctx, random({10}, DType::f32, 1));
      ctx.synchronize();
      emulator::lose_device(0, moment);
      expect_error(Errc::device_lost, "", [&] {
        for (int i = 0; i < 8; ++i) {
          ctx.replay(nullptr, Key{1}, [&] {
            activate(ctx, x, Activation::silu, x);
            activate(ctx, x, Activation::silu, x);
          });
          if (i % 3 == 0) {
            ctx.synchronize();
          }
        }
        ctx.synchronize();
      });
    }
    emulator::configure(emulator::default_config());
  }
}

TEST_F(BackendFaults, AnotherDeviceGoesOn) {
  emulator::configure({.devices = 2});
  ExecContext lost(1, kGpu);
  ExecContext other(1, {DeviceKind::cuda, 1});
  const Tensor host = random({10}, DType::f32, 2);
  Tensor on_lost = upload(lost, host);
  Tensor on_other = upload(other, host);
  lost.synchronize();
  emulator::lose_device(0, 0);
  activate(lost, on_lost, Activation::silu, on_lost);
  expect_error(Errc::device_lost, "", [&] { lost.synchronize(); });
  expect_error(Errc::device_lost, "", [&] { (void)clone(other, on_lost); });
  expect_same_bits(download(other, on_other), host);
}

TEST_F(BackendFaults, ReportsTheMemoryThatIsLeft) {
  emulator::configure({.memory_bytes = 1 << 20});
  ExecContext ctx(1, kGpu);
  Tensor most = ctx.empty({(1 << 20) - 1024}, DType::u8);
  expect_error(Errc::device_full,
               "cannot allocate 1025 bytes: 1024 of 1048576 are free",
               [&] { (void)ctx.empty({1025}, DType::u8); });
  (void)ctx.empty({1024}, DType::u8);
  most = {};
  most = ctx.empty({1 << 20}, DType::u8);
}

TEST_F(BackendFaults, AFailedAllocationLeavesEverythingUsable) {
  ExecContext ctx(1, kGpu);
  const Tensor host = random({10}, DType::f32, 3);
  // The second allocation, and what asks again once the queue is empty.
  emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation, 2);
  emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation, 2);
  const Tensor first = upload(ctx, host);
  expect_error(Errc::device_full, "", [&] { (void)upload(ctx, host); });
  expect_same_bits(download(ctx, upload(ctx, first)), host);
}

TEST_F(BackendFaults, AsksForMemoryAgainWhenTheQueueIsEmpty) {
  ExecContext ctx(1, kGpu);
  const Tensor host = random({10}, DType::f32, 3);
  const Tensor before = upload(ctx, host);
  const std::uint64_t waits = emulator::counters(0).host_waits;
  emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation);
  const Tensor there = ctx.empty({100}, DType::f32);
  EXPECT_EQ(emulator::counters(0).host_waits - waits, 1U);
  expect_same_bits(download(ctx, before), host);
}

TEST_F(BackendFaults, StagingSurvivesTheLackOfPinnedMemory) {
  ExecContext ctx(1, kGpu);
  const Tensor host = random({(9 << 20) / 4}, DType::f32, 4);
  Tensor there = ctx.empty(host.shape(), DType::f32);
  for (const int nth : {1, 2, 1}) {
    emulator::fail_call("cudaMallocHost", cudaErrorMemoryAllocation, nth);
    expect_error(Errc::out_of_memory, "pinned",
                 [&] { copy(ctx, host, there); });
  }
  emulator::fail_call("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);
  expect_error(Errc::device_full, "staging", [&] { copy(ctx, host, there); });
  copy(ctx, host, there);
  expect_same_bits(download(ctx, there), host);
}

TEST_F(BackendFaults, AFailedRecordingIsTriedAgain) {
  for (const char* function :
       {"cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaGraphLaunch"}) {
    ExecContext ctx(1, kGpu);
    const Tensor host = random({10}, DType::f32, 5);
    Tensor x = upload(ctx, host);
    Tensor out = poisoned(ctx, {10}, DType::f32);
    int calls = 0;
    const auto work = [&] {
      ++calls;
      activate(ctx, x, Activation::none, out);
    };
    ctx.replay(nullptr, Key{1}, work);
    emulator::fail_call(function, cudaErrorInvalidValue);
    expect_error(Errc::internal, "cudaErrorInvalidValue",
                 [&] { ctx.replay(nullptr, Key{1}, work); });
    calls = 0;
    for (int i = 0; i < 3; ++i) {
      ctx.replay(nullptr, Key{1}, work);
    }
    EXPECT_EQ(calls, 1) << function;
    expect_same_bits(download(ctx, out), host);
  }
}

TEST_F(BackendFaults, ABackendThatCannotBeMadeLeavesNothing) {
  emulator::configure({.devices = 2});
  for (const char* function :
       {"cudaStreamCreateWithFlags", "cudaDeviceGetAttribute",
        "cudaDeviceGetDefaultMemPool", "cudaMemPoolSetAttribute"}) {
    emulator::fail_call(function, cudaErrorInvalidValue);
    expect_error(Errc::internal, "cudaErrorInvalidValue",
                 [] { const ExecContext ctx(1, kGpu); });
  }
  const ExecContext ctx(1, kGpu);
}

TEST_F(BackendFaults, RefusesMachinesWithoutAGpuThatWillDo) {
  emulator::configure({.devices = 0});
  expect_error(Errc::unsupported, "no GPU can be used",
               [] { const ExecContext ctx(1, kGpu); });
  emulator::configure({.compute_major = 7, .compute_minor = 5});
  expect_error(Errc::unsupported, "7.5",
               [] { const ExecContext ctx(1, kGpu); });
}

TEST_F(BackendFaults, AStepAllocatesNothingAndWaitsForNothing) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, random({5000}, DType::f32, 6));
  const auto step = [&] {
    const Workspace::Scope scope(ctx.workspace());
    Tensor scratch = ctx.workspace().take(x.shape(), DType::bf16);
    activate(ctx, x, Activation::silu, scratch);
    activate(ctx, scratch, Activation::gelu_tanh, x);
  };
  step();
  const emulator::Counters before = emulator::counters(0);
  for (int i = 0; i < 5; ++i) {
    step();
    ctx.replay(nullptr, Key{1}, step);
  }
  const emulator::Counters after = emulator::counters(0);
  EXPECT_EQ(after.operations - before.operations, 20U);
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.frees, before.frees);
  EXPECT_EQ(after.pageable_copies, before.pageable_copies);
  EXPECT_EQ(after.pinned_changes, before.pinned_changes);
  // The first call is eager, the second recorded and launched.
  EXPECT_EQ(after.graph_launches - before.graph_launches, 4U);
}

TEST_F(BackendFaults, GivesBackEverything) {
  {
    ExecContext ctx(1, kGpu);
    Tensor x = upload(ctx, random({5000}, DType::f32, 6));
    for (int i = 0; i < 3; ++i) {
      ctx.replay(nullptr, Key{1},
                 [&] { activate(ctx, x, Activation::silu, x); });
    }
    EXPECT_GT(emulator::bytes_in_use(0), 0U);
  }
  const emulator::Counters counters = emulator::counters(0);
  EXPECT_EQ(counters.allocations, counters.frees);
}

class DevicesWithoutPeers : public BackendFaults {
 protected:
  void SetUp() override {
    emulator::configure({.devices = 2, .peer_access = false});
  }
};

TEST_F(DevicesWithoutPeers, TensorsCrossThroughTheHost) {
  ExecContext a(1, kGpu);
  ExecContext b(1, {DeviceKind::cuda, 1});
  const Tensor host = random({1000}, DType::f32, 7);
  const Tensor on_a = upload(a, host);
  a.synchronize();
  const Tensor on_b = clone(b, on_a);
  b.synchronize();
  expect_same_bits(download(a, clone(a, on_b)), host);
}

TEST_F(DevicesWithoutPeers, APlainCopyBetweenThemIsRefused) {
  ExecContext a(1, kGpu);
  ExecContext b(1, {DeviceKind::cuda, 1});
  Tensor on_a = upload(a, random({10}, DType::f32, 8));
  Tensor on_b = upload(b, random({10}, DType::f32, 9));
  a.synchronize();
  EXPECT_EQ(
      cudaMemcpyAsync(on_b.data<float>(), on_a.data<float>(), 40,
                      cudaMemcpyDeviceToDevice, cuda::Backend::of(b).stream()),
      cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace troupe::kernels
