#include <cmath>
#include <set>

#include "kernels/cuda/launch.cuh"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/support.h"

// The emulator reports bugs of kernels, and wrong accesses to memory by kernels
// and the host.

namespace troupe::kernels::cuda {
namespace {

/// out[block] = Σ of a block's thread numbers, by shuffles and shared memory.
struct SumThreads {
  static constexpr const char* kName = "sum_threads";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = true;

  float* out;
  bool forgets_sync = false;

  template <typename Lane>
  void operator()(Lane& lane) const {
    float sum = static_cast<float>(lane.thread());
    for (int mask = Lane::kWarp / 2; mask > 0; mask /= 2) {
      sum += lane.shuffle_xor(sum, mask);
    }
    auto* of_warps = lane.template shared<float>();
    if (lane.thread() % Lane::kWarp == 0) {
      of_warps[lane.thread() / Lane::kWarp] = sum;
    }
    if (!forgets_sync) {
      lane.sync();
    }
    if (lane.thread() == 0) {
      float total = 0;
      for (int i = 0; i < lane.num_threads() / Lane::kWarp; ++i) {
        total += of_warps[i];
      }
      out[lane.block_y() * lane.num_blocks() + lane.block()] = total;
    }
  }
};

/// Calls a function: kernels that no real one may look like.
template <typename Fn, bool cooperates>
struct Call {
  static constexpr const char* kName = "the_named_kernel";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = cooperates;
  Fn fn;

  void operator()(HostLane& lane) const { fn(lane); }
};

template <bool cooperates = true, typename Fn>
void run(ExecContext& ctx, Fn fn, int threads = 64, Grid grid = {},
         std::size_t shared_bytes = 0) {
  launch(Backend::of(ctx), Call<Fn, cooperates>{fn}, grid, threads,
         shared_bytes);
  ctx.synchronize();
}

class Emulator : public testing::Test {
 protected:
  void TearDown() override { emulator::configure(emulator::default_config()); }
};
using EmulatorDeathTest = Emulator;

TEST_F(Emulator, RunsCooperatingThreads) {
  ExecContext ctx(1, kGpu);
  for (const int threads : {32, 64, 256}) {
    Tensor out = poisoned(ctx, {6, 7}, DType::f32);
    launch(Backend::of(ctx), SumThreads{out.data<float>()}, {7, 6}, threads,
           sizeof(float) * static_cast<std::size_t>(threads) / 32);
    const Tensor got = download(ctx, out);
    for (const float sum : got.span<float>()) {
      EXPECT_EQ(sum, static_cast<float>(threads * (threads - 1) / 2));
    }
  }
}

TEST_F(Emulator, WalksEveryBlockAndThreadOnce) {
  ExecContext ctx(1, kGpu);
  Tensor counts = upload(ctx, Tensor::zeros({5, 13, 64}, DType::i64));
  auto* count = counts.data<std::int64_t>();
  const auto add = [count](HostLane& lane) {
    EXPECT_EQ(lane.num_blocks(), 13);
    EXPECT_EQ(lane.num_threads(), 64);
    count[(lane.block_y() * 13 + lane.block()) * 64 + lane.thread()] += 1;
  };
  run<true>(ctx, add, 64, {13, 5});
  run<false>(ctx, add, 64, {13, 5});
  const Tensor got = download(ctx, counts);
  for (const std::int64_t times : got.span<std::int64_t>()) {
    EXPECT_EQ(times, 2);
  }
}

TEST_F(Emulator, AWarpThatIsNotFullShufflesAmongItself) {
  ExecContext ctx(1, kGpu);
  Tensor out = poisoned(ctx, {40}, DType::i64);
  auto* got = out.data<std::int64_t>();
  run(
      ctx,
      [got](HostLane& lane) {
        got[lane.thread()] = lane.shuffle_xor<std::int64_t>(lane.thread(), 9);
      },
      40);
  const Tensor host = download(ctx, out);
  for (std::int64_t i = 0; i < 40; ++i) {
    const std::int64_t other = i < 32 ? i ^ 9 : 32 + ((i - 32) ^ 9);
    // Missing threads give no usable value.
    EXPECT_EQ(host.data<std::int64_t>()[i], other < 40 ? other : -1);
  }
}

TEST_F(Emulator, FreshMemoryHoldsNan) {
  ExecContext ctx(1, kGpu);
  for (int i = 0; i < 3; ++i) {
    const Tensor tensor = ctx.empty({100}, DType::f32);
    const Tensor host = download(ctx, tensor);
    for (const float value : host.span<float>()) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
  Tensor out = poisoned(ctx, {1}, DType::f32);
  auto* to = out.data<float>();
  run(
      ctx, [to](HostLane& lane) { *to = lane.shared<float>()[3]; }, 1, {}, 16);
  EXPECT_TRUE(std::isnan(download(ctx, out).data<float>()[0]));
}

TEST_F(Emulator, ShowsAForgottenSync) {
  std::set<bool> is_right;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulator::configure({.seed = seed});
    ExecContext ctx(1, kGpu);
    Tensor out = poisoned(ctx, {1}, DType::f32);
    launch(Backend::of(ctx), SumThreads{out.data<float>(), true}, {1}, 256, 32);
    is_right.insert(download(ctx, out).data<float>()[0] == 256 * 255 / 2);
  }
  EXPECT_TRUE(is_right.contains(false));
}

TEST_F(Emulator, RefusesLaunchesThatCannotBe) {
  emulator::configure({.devices = 2});
  ExecContext ctx(1, kGpu);
  const auto nothing = [](HostLane&) {};
  using Kernel = Call<decltype(nothing), false>;
  const auto refuses = [&](Grid grid, std::size_t shared_bytes) {
    EXPECT_THROW(
        launch(Backend::of(ctx), Kernel{nothing}, grid, 32, shared_bytes),
        Error);
  };
  refuses({1, 65536}, 0);
  refuses({std::int64_t{1} << 31, 1}, 0);
  refuses({1, 1}, (48 << 10) + 1);
  EXPECT_THROW(launch(Backend::of(ctx), Kernel{nothing}, {}, 257), Error);
  Backend& backend = Backend::of(ctx);
  check(cudaSetDevice(1), "device");
  EXPECT_THROW(launch(backend, Kernel{nothing}, {}, 32), Error);
}

TEST_F(EmulatorDeathTest, TheHostTouchesDeviceMemory) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, random({10}, DType::f32, 1));
  ctx.synchronize();
  EXPECT_DEATH(x.data<float>()[3] = 1, "the host touches device memory");
}

TEST_F(EmulatorDeathTest, AKernelLeavesItsMemory) {
  ExecContext ctx(1, kGpu);
  Tensor x = ctx.empty({1024}, DType::f32);
  auto* to = x.data<float>();
  EXPECT_DEATH(run<false>(
                   ctx, [to](HostLane&) { to[1024] = 1; }, 1),
               "illegal address.*the_named_kernel, block .0, 0., thread 0");
  // The rest of a line of 256 bytes is not a page, but is looked at.
  Tensor odd = ctx.empty({9}, DType::f32);
  auto* behind = odd.data<float>() + 9;
  EXPECT_DEATH(run<false>(
                   ctx, [behind](HostLane&) { *behind = 1; }, 1),
               "behind the end of 36 bytes.*the_named_kernel");
  auto* before = odd.data<float>() - 1;
  EXPECT_DEATH(run<false>(
                   ctx, [before](HostLane&) { *before = 1; }, 1),
               "before the start of 36 bytes.*the_named_kernel");
}

TEST_F(EmulatorDeathTest, AKernelUsesReleasedMemory) {
  ExecContext ctx(1, kGpu);
  auto* const freed = ctx.empty({1024}, DType::f32).data<float>();
  EXPECT_DEATH(run<false>(
                   ctx, [freed](HostLane&) { freed[5] = 1; }, 1),
               "illegal address.*the_named_kernel");
}

TEST_F(EmulatorDeathTest, ThreadsDiverge) {
  ExecContext ctx(1, kGpu);
  EXPECT_DEATH(run(ctx,
                   [](HostLane& lane) {
                     if (lane.thread() != 7) {
                       lane.sync();
                     }
                   }),
               "divergent threads: of 64, 63 wait in sync.*the_named_kernel");
  EXPECT_DEATH(run(ctx,
                   [](HostLane& lane) {
                     if (lane.thread() < 48) {
                       (void)lane.shuffle_xor(1, 1);
                     }
                   }),
               "divergent threads: .* 16 in shuffle_xor, 48 have ended");
  EXPECT_DEATH(run(ctx,
                   [](HostLane& lane) {
                     if (lane.thread() == 0) {
                       lane.sync();
                     } else {
                       (void)lane.shuffle_xor(1, 1);
                     }
                   }),
               "divergent threads");
  EXPECT_DEATH(run(ctx,
                   [](HostLane& lane) {
                     (void)lane.shuffle_xor(1, lane.thread() == 3 ? 1 : 2);
                   }),
               "different masks");
}

TEST_F(EmulatorDeathTest, AKernelCooperatesWithoutSayingSo) {
  ExecContext ctx(1, kGpu);
  EXPECT_DEATH(run<false>(ctx, [](HostLane& lane) { lane.sync(); }),
               "does not say so.*the_named_kernel");
}

TEST_F(EmulatorDeathTest, AKernelLeavesItsSharedMemory) {
  ExecContext ctx(1, kGpu);
  EXPECT_DEATH(
      run(
          ctx, [](HostLane& lane) { lane.shared<float>()[8] = 1; }, 1, {}, 32),
      "memory fault in the kernel the_named_kernel");
  EXPECT_DEATH(
      run(
          ctx, [](HostLane& lane) { lane.shared<float>()[7] = 1; }, 1, {}, 28),
      "behind the end of shared memory");
}

TEST_F(EmulatorDeathTest, AKernelTouchesADeviceWithoutAccess) {
  emulator::configure({.devices = 2, .peer_access = false});
  ExecContext a(1, kGpu);
  ExecContext b(1, {DeviceKind::cuda, 1});
  Tensor on_a = upload(a, random({10}, DType::f32, 1));
  a.synchronize();
  auto* to = on_a.data<float>();
  EXPECT_DEATH(run<false>(
                   b, [to](HostLane&) { *to = 1; }, 1),
               "illegal address.*the_named_kernel");
}

TEST_F(Emulator, AKernelTouchesADeviceItHasAccessTo) {
  emulator::configure({.devices = 2});
  ExecContext a(1, kGpu);
  ExecContext b(1, {DeviceKind::cuda, 1});
  Tensor on_a = upload(a, random({10}, DType::f32, 1));
  a.synchronize();
  auto* to = on_a.data<float>();
  run<false>(
      b, [to](HostLane&) { *to = 5; }, 1);
  EXPECT_EQ(download(a, on_a).data<float>()[0], 5);
}

TEST_F(EmulatorDeathTest, SomethingIsNotGivenBack) {
  EXPECT_DEATH(
      {
        const ExecContext ctx(1, kGpu);
        emulator::configure({});
      },
      "still held");
}

}  // namespace
}  // namespace troupe::kernels::cuda
