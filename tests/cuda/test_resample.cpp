#include <algorithm>
#include <utility>

#include "kernels/conv2d.h"
#include "kernels/core/error.h"
#include "tests/cuda/views.h"

namespace troupe::kernels {
namespace {

class ResampleOnGpu : public CudaTest {
 protected:
  /// shift: of the result in memory, in elements.
  static void expect_doubled(ExecContext& cpu, ExecContext& gpu,
                             const Tensor& x, const Shape& doubled,
                             std::int64_t shift) {
    Tensor want(doubled, x.dtype());
    upsample_nearest2x(cpu, x, want);
    GuardedOutput out(gpu, doubled, x.dtype(), shift);
    upsample_nearest2x(gpu, upload(gpu, x), out.tensor);
    expect_same_bits(download(gpu, out.tensor), want);
    EXPECT_TRUE(out.intact(gpu));
  }
};

TEST_F(ResampleOnGpu, DoublesAsTheCpuDoes) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  struct Size {
    std::int64_t b, h, w, c;
  };
  std::uint64_t seed = 0;
  for (const Size& s :
       {Size{1, 1, 1, 1}, Size{2, 3, 5, 3}, Size{1, 4, 4, 8}, Size{2, 7, 3, 32},
        Size{0, 4, 4, 8}, Size{1, 0, 4, 8}, Size{1, 3, 9, 33},
        Size{1, 8, 8, 128}, Size{3, 2, 2, 6}}) {
    for (const DType dtype : kFloats) {
      for (const std::int64_t shift : {0, 1}) {
        expect_doubled(cpu, ctx, random({s.b, s.h, s.w, s.c}, dtype, ++seed),
                       {s.b, 2 * s.h, 2 * s.w, s.c}, shift);
      }
    }
  }
}

TEST_F(ResampleOnGpu, LeavesOutRowsAndColumnsAsTheCpuDoes) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 50;
  for (const Shape& s :
       {Shape{1, 1, 1, 1}, Shape{2, 3, 5, 3}, Shape{3, 1, 4, 8},
        Shape{2, 7, 3, 32}, Shape{3, 4, 2, 128}, Shape{2, 0, 3, 4}}) {
    for (const DType dtype : kFloats) {
      const Tensor x = random(s, dtype, ++seed);
      for (const auto& [cut_y, cut_x] : {std::pair{1, 0}, {0, 1}, {1, 1}}) {
        const std::int64_t height = std::max<std::int64_t>(2 * s[1] - cut_y, 0);
        expect_doubled(cpu, ctx, x, {s[0], height, 2 * s[2] - cut_x, s[3]}, 0);
        expect_doubled(cpu, ctx, x, {s[0], height, 2 * s[2] - cut_x, s[3]}, 1);
      }
    }
  }
}

TEST_F(ResampleOnGpu, DoublesBytes) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  Tensor x({1, 2, 3, 3}, DType::u8);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    x.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(7 * i + 1);
  }
  Tensor want({1, 4, 6, 3}, DType::u8);
  upsample_nearest2x(cpu, x, want);
  Tensor out = poisoned(ctx, want.shape(), DType::u8);
  upsample_nearest2x(ctx, upload(ctx, x), out);
  expect_same_bits(download(ctx, out), want);
}

TEST_F(ResampleOnGpu, ConcatenatesAsTheCpuDoes) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  struct Size {
    std::int64_t pixels, a, b;
  };
  std::uint64_t seed = 100;
  for (const Size& s : {Size{1, 1, 1}, Size{35, 7, 3}, Size{64, 32, 64},
                        Size{0, 4, 4}, Size{9, 0, 5}, Size{600, 6, 10}}) {
    for (const DType dtype : kFloats) {
      for (const std::int64_t shift : {0, 1}) {
        const Tensor a = random({s.pixels, s.a}, dtype, ++seed);
        const Tensor b = random({s.pixels, s.b}, dtype, ++seed);
        Tensor want({s.pixels, s.a + s.b}, dtype);
        concat_channels(cpu, a, b, want);
        GuardedOutput out(ctx, want.shape(), dtype, shift);
        concat_channels(ctx, upload(ctx, a), upload(ctx, b), out.tensor);
        expect_same_bits(download(ctx, out.tensor), want);
        EXPECT_TRUE(out.intact(ctx));
      }
    }
  }
}

TEST_F(ResampleOnGpu, RefusesMemoryOfTheHost) {
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, random({1, 2, 2, 4}, DType::f32, 1));
  Tensor host({1, 4, 4, 4}, DType::f32);
  EXPECT_THROW(upsample_nearest2x(ctx, x, host), Error);
}

}  // namespace
}  // namespace troupe::kernels
