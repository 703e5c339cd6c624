#include <numeric>

#include "kernels/cuda/launch.cuh"
#include "tests/cuda/support.h"

// The emulator finds what it is there to find.

namespace troupe::kernels::cuda {
namespace {

/// out[block] = Σ of a block's thread numbers, by shuffles and shared memory.
struct SumThreads {
  static constexpr const char* kName = "sum_threads";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = true;

  float* out;

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
    lane.sync();
    if (lane.thread() == 0) {
      float total = 0;
      for (int i = 0; i < lane.num_threads() / Lane::kWarp; ++i) {
        total += of_warps[i];
      }
      out[lane.block_y() * lane.num_blocks() + lane.block()] = total;
    }
  }
};

TEST(Emulator, RunsCooperatingThreads) {
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

}  // namespace
}  // namespace troupe::kernels::cuda
