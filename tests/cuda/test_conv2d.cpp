#include "kernels/conv2d.h"
#include "tests/cuda/views.h"

namespace troupe::kernels {
namespace {

class ConvOnGpu : public CudaTest {};

struct ConvCase {
  std::int64_t items;
  std::int64_t height;
  std::int64_t width;
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  std::int64_t stride = 1;
  Padding padding;
  bool has_bias = true;

  [[nodiscard]] Shape out() const {
    return {
        items,
        (padding.top + height + padding.bottom - kernel_height) / stride + 1,
        (padding.left + width + padding.right - kernel_width) / stride + 1,
        out_channels};
  }
};

/// As in an autoencoder's encoder.
constexpr ConvCase kHalving{3, 8, 6, 8, 5, 3, 3, 2, {.bottom = 1, .right = 1}};

constexpr ConvCase kConvCases[] = {
    {1, 1, 1, 1, 1, 1, 1},
    {2, 5, 7, 3, 5, 3, 3, 1, Padding::all(1)},
    {1, 8, 6, 4, 16, 3, 3, 1, Padding::all(1)},
    {3, 9, 9, 16, 3, 3, 3, 1, Padding::all(1)},
    {2, 7, 8, 8, 8, 1, 1},
    {1, 11, 6, 5, 4, 5, 3, 2, Padding::all(2)},
    {1, 6, 6, 24, 8, 3, 3, 2, {}, false},
    kHalving,
    {2, 9, 7, 3, 8, 3, 3, 2, {.bottom = 1, .right = 1}},
    // The first, a middle and the last shard of rows.
    {2, 7, 6, 16, 8, 3, 3, 1, {.top = 1, .left = 1, .right = 1}},
    {2, 7, 6, 16, 8, 3, 3, 1, {.left = 1, .right = 1}},
    {2, 7, 6, 1, 8, 3, 3, 1, {.bottom = 1, .left = 1, .right = 1}},
    {2, 3, 5, 2, 4, 3, 2, 2, {.top = 5, .bottom = 1, .left = 2, .right = 3}}};

struct Weights {
  Tensor filters;
  Tensor bias;

  Weights(const ConvCase& c, DType dtype, std::uint64_t seed)
      : filters(random(
            {c.out_channels, c.in_channels, c.kernel_height, c.kernel_width},
            dtype, seed, 0.3F)),
        bias(c.has_bias ? random({c.out_channels}, dtype, seed + 1)
                        : Tensor()) {}
};

PackedConv2d packed(ExecContext& ctx, const ConvCase& c, const Weights& w,
                    DType compute) {
  return {ctx, w.filters, w.bias, c.stride, c.padding, compute};
}

/// What the CPU makes of an image in f32, of weights rounded to `compute`.
Tensor expected(const ConvCase& c, const Tensor& x, const Weights& w,
                DType compute) {
  ExecContext cpu;
  Weights rounded = w;
  rounded.filters = as(as(w.filters, compute), DType::f32);
  const PackedConv2d conv = packed(cpu, c, rounded, DType::f32);
  Tensor want(c.out(), DType::f32);
  conv2d(cpu, as(x, DType::f32), conv, want);
  return want;
}

Tensor on_gpu(ExecContext& ctx, const ConvCase& c, const Tensor& x,
              const PackedConv2d& conv, DType out_type) {
  Tensor out = poisoned(ctx, c.out(), out_type);
  conv2d(ctx, upload(ctx, x), conv, out);
  return download(ctx, out);
}

Tensor image(const ConvCase& c, DType dtype, std::uint64_t seed) {
  return random({c.items, c.height, c.width, c.in_channels}, dtype, seed);
}

TEST_F(ConvOnGpu, AgreesWithTheCpuForEveryGeometryAndType) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType out : {DType::f32, compute}) {
      for (const ConvCase& c : kConvCases) {
        const Weights w(c, DType::f32, ++seed);
        const Tensor x = image(c, compute, ++seed);
        const PackedConv2d conv = packed(ctx, c, w, compute);
        // Sums are f32 whatever the type of the factors.
        expect_close(on_gpu(ctx, c, x, conv, out), expected(c, x, w, compute),
                     tolerance_of(out));
      }
    }
  }
}

TEST_F(ConvOnGpu, TakesWeightsOfEveryType) {
  ExecContext ctx(1, kGpu);
  const ConvCase& c = kConvCases[2];
  for (const DType stored : {DType::f32, DType::bf16, DType::f16}) {
    const Weights w(c, stored, 5);
    const PackedConv2d conv = packed(ctx, c, w, DType::bf16);
    EXPECT_EQ(conv.in_channels(), c.in_channels);
    EXPECT_EQ(conv.out_channels(), c.out_channels);
    EXPECT_EQ(conv.num_bytes(), 16U * 4 * 9 * 2 + 16 * 4);
    const Tensor x = image(c, DType::bf16, 6);
    expect_close(on_gpu(ctx, c, x, conv, DType::bf16),
                 expected(c, x, w, DType::bf16), tolerance_of(DType::bf16));
  }
}

TEST_F(ConvOnGpu, BitsOfAnImageDoNotDependOnTheBatch) {
  ExecContext ctx(1, kGpu);
  // Images of an odd number of elements: unlike aligned inside the batch.
  for (const ConvCase& all :
       {ConvCase{4, 7, 9, 5, 3, 3, 3, 1, Padding::all(1)},
        ConvCase{4, 7, 9, 5, 3, 3, 3, 2, Padding::all(1)},
        ConvCase{4, 7, 9, 5, 3, 3, 3, 2, {.bottom = 1, .right = 1}}}) {
    for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
      ConvCase one = all;
      one.items = 1;
      const Weights w(all, DType::f32, 3);
      const PackedConv2d conv = packed(ctx, all, w, compute);
      const Tensor x = image(all, compute, 4);
      const Tensor together = on_gpu(ctx, all, x, conv, compute);
      for (std::int64_t item = 0; item < all.items; ++item) {
        expect_same_bits(
            on_gpu(ctx, one, x.slice(item, item + 1), conv, compute),
            together.slice(item, item + 1));
      }
      expect_same_bits(on_gpu(ctx, all, x, conv, compute), together);
    }
  }
}

TEST_F(ConvOnGpu, AgreesWithTheCpuInFreeMode) {
  ExecContext ctx(1, kGpu, {.batch_invariant = false, .tf32 = false});
  for (const DType compute : {DType::f32, DType::bf16}) {
    const ConvCase& c = kConvCases[3];
    const Weights w(c, DType::f32, 3);
    const PackedConv2d conv = packed(ctx, c, w, compute);
    const Tensor x = image(c, compute, 4);
    expect_close(on_gpu(ctx, c, x, conv, compute), expected(c, x, w, compute),
                 tolerance_of(compute));
  }
}

TEST_F(ConvOnGpu, IsPlayedBackWithNewNumbers) {
  ExecContext ctx(1, kGpu);
  for (const ConvCase& c : {kConvCases[1], kHalving}) {
    for (const DType compute : {DType::f32, DType::bf16}) {
      const auto owner = std::make_shared<int>();
      const std::uint64_t key[] = {static_cast<std::uint64_t>(compute)};
      const Weights w(c, DType::f32, 3);
      const PackedConv2d conv = packed(ctx, c, w, compute);
      Tensor x = upload(ctx, image(c, compute, 1));
      Tensor out = poisoned(ctx, c.out(), compute);
      for (std::uint64_t round = 0; round < 5; ++round) {
        const Tensor host = image(c, compute, 20 + round);
        copy(ctx, host, x);
        ctx.replay(owner, key, [&] { conv2d(ctx, x, conv, out); });
        expect_close(download(ctx, out), expected(c, host, w, compute),
                     tolerance_of(compute));
      }
    }
  }
}

// The library reads an aligned copy, whatever the address.
TEST_F(ConvOnGpu, PadsUnequallyAtEveryAddress) {
  ExecContext ctx(1, kGpu);
  const ConvCase& c = kHalving;
  for (const DType compute : kFloats) {
    const PackedConv2d conv =
        packed(ctx, c, Weights(c, DType::f32, 3), compute);
    const Tensor x = image(c, compute, 4);
    const Tensor want = on_gpu(ctx, c, x, conv, compute);
    for (const std::int64_t shift : {1, 2, 4}) {
      Tensor out = poisoned(ctx, c.out(), compute);
      conv2d(ctx, shifted_upload(ctx, x, shift), conv, out);
      expect_same_bits(download(ctx, out), want);
    }
  }
}

TEST_F(ConvOnGpu, PassesNanOn) {
  ExecContext ctx(1, kGpu);
  const ConvCase c{1, 5, 5, 2, 3, 3, 3, 1, Padding::all(1)};
  const Weights w(c, DType::f32, 3);
  const PackedConv2d conv = packed(ctx, c, w, DType::f32);
  Tensor x = image(c, DType::f32, 4);
  x.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const Tensor out = on_gpu(ctx, c, x, conv, DType::f32);
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    const std::int64_t row = i / 15;
    const std::int64_t column = i / 3 % 5;
    EXPECT_EQ(std::isnan(out.data<float>()[i]), row < 2 && column < 2);
  }
}

TEST_F(ConvOnGpu, RefusesWeightsOfAnotherDevice) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  const ConvCase& c = kConvCases[1];
  const PackedConv2d there =
      packed(cpu, c, Weights(c, DType::f32, 3), DType::f32);
  const Tensor x = upload(ctx, image(c, DType::f32, 1));
  Tensor out = poisoned(ctx, c.out(), DType::f32);
  EXPECT_THROW(conv2d(ctx, x, there, out), Error);
}

}  // namespace
}  // namespace troupe::kernels
