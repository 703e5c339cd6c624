#include "kernels/cuda/ops.h"
#include "tests/cuda/views.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kCounts[] = {0,    1,    3,    4,    8,    9,
                                    1023, 4095, 4096, 4099, 40001};

class ElementwiseOnGpu : public CudaTest {};

struct Gated {
  std::int64_t items, rows, width, modulation, column, shift;
};

/// x + gate · y, each operation rounded; y's type is that of `y`.
Tensor add_gated_by_hand(const Gated& g, const Tensor& modulation,
                         const Tensor& y, const Tensor& x) {
  Tensor want = x.clone();
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    const std::int64_t item = i / (g.rows * g.width);
    const float factor =
        modulation.data<float>()[item * g.modulation + g.column + i % g.width];
    volatile float product = factor * value_of(y, i);
    want.data<float>()[i] = want.data<float>()[i] + product;
  }
  return want;
}

TEST_F(ElementwiseOnGpu, AddGatedHasTheBitsOfOneProductAndOneSum) {
  ExecContext ctx(1, kGpu);
  constexpr Gated kCases[] = {
      {2, 5, 16, 48, 16, 0},  {1, 1, 1, 1, 0, 0},
      {3, 4, 12, 40, 4, 0},   {2, 9, 12, 40, 5, 0},
      {2, 7, 15, 33, 3, 0},   {2, 8, 16, 50, 16, 0},
      {2, 8, 16, 48, 16, 1},  {1, 0, 16, 48, 0, 0},
      {0, 4, 16, 48, 0, 0},   {2, 37, 96, 96, 0, 0},
      {5, 3, 72, 432, 72, 2}, {1, 130, 1152, 6912, 2304, 0}};
  std::uint64_t seed = 0;
  for (const Gated& g : kCases) {
    for (const DType dtype : kFloats) {
      const Tensor modulation =
          random({g.items, g.modulation}, DType::f32, ++seed);
      const Shape shape{g.items, g.rows, g.width};
      const Tensor y = random(shape, dtype, ++seed);
      const Tensor start = random(shape, DType::f32, ++seed);
      GuardedOutput x(ctx, shape, DType::f32, g.shift);
      copy(ctx, start, x.tensor);
      cuda::add_gated(ctx, upload(ctx, modulation), g.column, upload(ctx, y),
                      x.tensor);
      expect_same_bits(download(ctx, x.tensor),
                       add_gated_by_hand(g, modulation, y, start));
      EXPECT_TRUE(x.intact(ctx));
    }
  }
}

TEST_F(ElementwiseOnGpu, AddGatedOfARowDoesNotDependOnItsBatch) {
  ExecContext ctx(1, kGpu);
  const Tensor modulation = random({3, 40}, DType::f32, 1);
  const Tensor y = random({3, 6, 20}, DType::bf16, 2);
  const Tensor start = random({3, 6, 20}, DType::f32, 3);
  Tensor together = upload(ctx, start);
  cuda::add_gated(ctx, upload(ctx, modulation), 20, upload(ctx, y), together);
  for (std::int64_t item = 0; item < 3; ++item) {
    Tensor alone = upload(ctx, start.slice(item, item + 1));
    cuda::add_gated(ctx, upload(ctx, modulation.slice(item, item + 1)), 20,
                    upload(ctx, y.slice(item, item + 1)), alone);
    expect_same_bits(download(ctx, alone),
                     download(ctx, together.slice(item, item + 1)));
  }
}

TEST_F(ElementwiseOnGpu, AddChannelsHasTheCpusBits) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  struct Vectors {
    Shape x;
    std::int64_t columns, first, shift;
  };
  const Vectors cases[] = {{{3, 5, 7, 20}, 40, 4, 0},   {{2, 9, 16}, 16, 0, 0},
                           {{2, 9, 16}, 48, 16, 1},     {{2, 9, 16}, 50, 16, 0},
                           {{2, 3, 15}, 33, 3, 0},      {{3, 1}, 1, 0, 0},
                           {{1, 64, 64, 72}, 72, 0, 0}, {{0, 4, 8}, 8, 0, 0}};
  std::uint64_t seed = 400;
  for (const Vectors& c : cases) {
    for (const DType dtype : kFloats) {
      const Tensor vectors = random({c.x[0], c.columns}, DType::f32, ++seed);
      const Tensor start = random(c.x, dtype, ++seed);
      // f16 through f32, where the sum is exact enough to round once.
      Tensor want = as(start, DType::f32);
      add_channels(cpu, vectors, c.first, want);
      GuardedOutput x(ctx, c.x, dtype, c.shift);
      copy(ctx, start, x.tensor);
      add_channels(ctx, upload(ctx, vectors), c.first, x.tensor);
      expect_same_bits(download(ctx, x.tensor), as(want, dtype));
      EXPECT_TRUE(x.intact(ctx));
    }
  }
}

TEST_F(ElementwiseOnGpu, AddRoundsTheSumOnce) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 100;
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      for (const std::int64_t count : kCounts) {
        for (const std::int64_t shift : {0, 1, 4}) {
          const Tensor y = random({count}, from, ++seed);
          const Tensor start = random({count}, to, ++seed);
          GuardedOutput x(ctx, {count}, to, shift);
          copy(ctx, start, x.tensor);
          cuda::add(ctx, upload(ctx, y), x.tensor);
          Tensor sum({count}, DType::f32);
          for (std::int64_t i = 0; i < count; ++i) {
            sum.data<float>()[i] = value_of(start, i) + value_of(y, i);
          }
          expect_same_bits(download(ctx, x.tensor), as(sum, to));
          EXPECT_TRUE(x.intact(ctx));
        }
      }
    }
  }
}

TEST_F(ElementwiseOnGpu, ConvertRoundsToNearestEven) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1000;
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      for (const std::int64_t count : kCounts) {
        for (const std::int64_t shift : {0, 1, 4}) {
          const Tensor x = random({count}, from, ++seed, 1e3F);
          GuardedOutput out(ctx, {count}, to, shift);
          cuda::convert(ctx, shifted_upload(ctx, x, shift), out.tensor);
          expect_same_bits(download(ctx, out.tensor), as(x, to));
          EXPECT_TRUE(out.intact(ctx));
        }
      }
    }
  }
}

TEST_F(ElementwiseOnGpu, ConvertKeepsWhatIsSpecial) {
  ExecContext ctx(1, kGpu);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  // Ties to even of bf16 and f16, subnormals of all three, the far ends.
  const float values[] = {0.0F,        -0.0F,      kInf,           -kInf,
                          1.00390625F, 1.0117188F, 1e-40F,         3.39e38F,
                          65520.0F,    65519.0F,   0x1p-24F,       0x1p-25F,
                          0x1.8p-24F,  1.0009766F, 1.00048828125F, -65504.0F};
  const Tensor x = Tensor::from<float>(values, {16});
  for (const DType to : {DType::bf16, DType::f16}) {
    Tensor out = poisoned(ctx, {16}, to);
    cuda::convert(ctx, upload(ctx, x), out);
    expect_same_bits(download(ctx, out), as(x, to));
    Tensor back = poisoned(ctx, {16}, DType::f32);
    cuda::convert(ctx, out, back);
    expect_same_bits(download(ctx, back), as(as(x, to), DType::f32));
  }
  const float none[] = {std::nanf(""), -std::nanf("")};
  for (const DType to : {DType::bf16, DType::f16}) {
    Tensor out(upload(ctx, Tensor::zeros({2}, to)));
    cuda::convert(ctx, upload(ctx, Tensor::from<float>(none, {2})), out);
    const Tensor got = download(ctx, out);
    EXPECT_TRUE(std::isnan(value_of(got, 0)) && std::isnan(value_of(got, 1)));
  }
}

}  // namespace
}  // namespace troupe::kernels
