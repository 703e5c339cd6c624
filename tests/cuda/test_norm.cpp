#include "kernels/cuda/ops.h"
#include "kernels/norm.h"
#include "tests/cuda/row_support.h"

namespace troupe::kernels {
namespace {

// Fewer threads than a warp, several rows of a block; one and several warps,
// with a part of them idle; the widest that stays in registers, and wider.
constexpr std::int64_t kWidths[] = {1,    2,    3,    4,     7,     16,   33,
                                    64,   128,  129,  192,   320,   516,  1152,
                                    1153, 3072, 4100, 12288, 12292, 20001};

struct LayerNormCase {
  Tensor x;           // [B, N, D]
  Tensor y;           // [B, N, D]
  Tensor modulation;  // [B, 3 D + pad]
  std::int64_t gate, shift, scale;
};

LayerNormCase make_case(std::int64_t items, std::int64_t rows,
                        std::int64_t width, DType y, std::int64_t pad,
                        std::uint64_t seed) {
  LayerNormCase made{random({items, rows, width}, DType::f32, seed, 3),
                     random({items, rows, width}, y, seed + 1),
                     random({items, 3 * width + pad}, DType::f32, seed + 2),
                     pad,
                     pad + 2 * width,
                     pad + width};
  // A mean that is large beside the deviation.
  for (float& value : made.x.span<float>()) {
    value += 7;
  }
  return made;
}

/// x + gate · y on the host, product and sum rounded.
Tensor added(const LayerNormCase& c) {
  Tensor sum = c.x.clone();
  const std::int64_t rows = c.x.dim(1);
  const std::int64_t width = c.x.dim(2);
  for (std::int64_t i = 0; i < sum.num_elements(); ++i) {
    const std::int64_t item = i / width / rows;
    const float gate =
        value_of(c.modulation, item * c.modulation.dim(1) + c.gate + i % width);
    const float product = gate * value_of(c.y, i);
    sum.data<float>()[i] += product;
  }
  return sum;
}

/// The normalised rows on ctx's device, x and out `move` elements off.
Tensor normalise(ExecContext& ctx, const LayerNormCase& c, DType dtype,
                 std::int64_t move = 0) {
  const Tensor x = upload_at(ctx, c.x, move);
  const Tensor modulation = upload_at(ctx, c.modulation, move);
  Tensor out = poisoned_at(ctx, c.x.shape(), dtype, move);
  layer_norm_modulate(ctx, x, modulation, c.shift, c.scale, 1e-6F, out);
  return download(ctx, out);
}

Tensor normalise_on_cpu(const LayerNormCase& c) {
  ExecContext cpu;
  Tensor out(c.x.shape(), DType::f32);
  layer_norm_modulate(cpu, c.x, c.modulation, c.shift, c.scale, 1e-6F, out);
  return out;
}

class LayerNormOnGpu : public CudaTest {};

TEST_F(LayerNormOnGpu, AgreesWithTheCpuAndIgnoresAlignment) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const std::int64_t width : kWidths) {
    const LayerNormCase c = make_case(2, 5, width, DType::f32, 4, seed += 3);
    const Tensor want = normalise_on_cpu(c);
    for (const DType dtype : kFloatTypes) {
      const Tensor got = normalise(ctx, c, dtype);
      expect_close(got, want, rounding_of(dtype), 4);
      expect_same_bits(normalise(ctx, c, dtype, 1), got);
    }
    LayerNormCase odd = c;
    odd.modulation = random({2, 3 * width + 5}, DType::f32, seed);
    odd.shift = 3;
    odd.scale = 2 * width + 3;
    expect_close(normalise(ctx, odd, DType::bf16), normalise_on_cpu(odd),
                 rounding_of(DType::bf16), 4);
  }
}

TEST_F(LayerNormOnGpu, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  ExecContext ctx(1, kGpu);
  for (const std::int64_t width : {3, 64, 192, 1152, 1153, 20001}) {
    const LayerNormCase all = make_case(3, 11, width, DType::f32, 4, 5);
    const Tensor together = normalise(ctx, all, DType::f32);
    for (const std::int64_t item : {0, 2}) {
      for (const std::int64_t row : {0, 6, 10}) {
        LayerNormCase one = all;
        one.x = all.x.item(item).slice(row, row + 1).reshape({1, 1, width});
        one.modulation = all.modulation.slice(item, item + 1);
        expect_same_bits(
            normalise(ctx, one, DType::f32),
            together.item(item).slice(row, row + 1).reshape({1, 1, width}));
      }
    }
  }
}

TEST_F(LayerNormOnGpu, EmptyTensorsAreNoWork) {
  ExecContext ctx(1, kGpu);
  for (const Shape& shape : {Shape{0, 3, 8}, Shape{2, 0, 8}, Shape{2, 3, 0}}) {
    LayerNormCase c = make_case(shape[0], shape[1], shape[2], DType::f32, 4, 1);
    const Tensor x = upload(ctx, c.x);
    const Tensor modulation = upload(ctx, c.modulation);
    Tensor out = poisoned(ctx, shape, DType::bf16);
    layer_norm_modulate(ctx, x, modulation, c.shift, c.scale, 0, out);
    ctx.synchronize();
  }
}

TEST_F(LayerNormOnGpu, WithWeightsAgreesWithTheCpuAndMayAlias) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const std::int64_t width : kWidths) {
    const Tensor x = random({2, 5, width}, DType::f32, ++seed, 3);
    const Tensor weight = random({width}, DType::f32, ++seed);
    const Tensor bias = random({width}, DType::f32, ++seed);
    Tensor want(x.shape(), DType::f32);
    layer_norm(cpu, x, weight, bias, 1e-5F, want);
    for (const DType dtype : kFloatTypes) {
      Tensor out = poisoned(ctx, x.shape(), dtype);
      layer_norm(ctx, upload(ctx, x), upload(ctx, weight), upload(ctx, bias),
                 1e-5F, out);
      const Tensor got = download(ctx, out);
      expect_close(got, want, rounding_of(dtype), 4);
      Tensor moved = poisoned_at(ctx, x.shape(), dtype, 1);
      layer_norm(ctx, upload_at(ctx, x, 1), upload_at(ctx, weight, 1),
                 upload_at(ctx, bias, 1), 1e-5F, moved);
      expect_same_bits(download(ctx, moved), got);
      if (dtype == DType::f32) {
        Tensor inout = upload(ctx, x);
        layer_norm(ctx, inout, upload(ctx, weight), upload(ctx, bias), 1e-5F,
                   inout);
        expect_same_bits(download(ctx, inout), got);
      }
      Tensor row = poisoned(ctx, {1, 1, width}, dtype);
      layer_norm(ctx, upload(ctx, x.item(1).slice(3, 4).reshape(row.shape())),
                 upload(ctx, weight), upload(ctx, bias), 1e-5F, row);
      expect_same_bits(download(ctx, row),
                       got.item(1).slice(3, 4).reshape(row.shape()));
    }
  }
}

class AddLayerNormOnGpu : public CudaTest {};

TEST_F(AddLayerNormOnGpu, HasTheBitsOfTheTwoSteps) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const std::int64_t width : kWidths) {
    for (const DType y : kFloatTypes) {
      for (const std::int64_t move : {0, 1}) {
        const LayerNormCase c = make_case(2, 3, width, y, 4, seed += 3);
        LayerNormCase second = c;
        second.x = added(c);
        const DType dtype = kFloatTypes[seed % 3];
        Tensor x = upload_at(ctx, c.x, move);
        Tensor out = poisoned_at(ctx, c.x.shape(), dtype, 0);
        add_layer_norm_modulate(ctx, upload(ctx, c.modulation), c.gate,
                                upload_at(ctx, c.y, move), c.shift, c.scale,
                                1e-6F, x, out);
        expect_same_bits(download(ctx, x), second.x);
        Tensor sum = upload(ctx, c.x);
        cuda::add_gated(ctx, upload(ctx, c.modulation), c.gate,
                        upload(ctx, c.y), sum);
        expect_same_bits(download(ctx, x), download(ctx, sum));
        expect_same_bits(download(ctx, out), normalise(ctx, second, dtype));
        expect_close(download(ctx, out), normalise_on_cpu(second),
                     rounding_of(dtype), 4);
      }
    }
  }
}

class RmsNormOnGpu : public CudaTest {};

TEST_F(RmsNormOnGpu, AgreesWithTheCpuInPlaceAndIgnoresAlignment) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const std::int64_t width : kWidths) {
    for (const DType dtype : kFloatTypes) {
      const Tensor x = random({2, 7, width}, dtype, ++seed, 3);
      const Tensor weight = random({width}, DType::f32, ++seed);
      Tensor want(x.shape(), DType::f32);
      rms_norm(cpu, as(x, DType::f32), weight, 1e-5F, want);
      Tensor out = poisoned(ctx, x.shape(), dtype);
      rms_norm(ctx, upload(ctx, x), upload(ctx, weight), 1e-5F, out);
      const Tensor got = download(ctx, out);
      expect_close(got, want, rounding_of(dtype));
      Tensor inout = upload_at(ctx, x, 1);
      rms_norm(ctx, inout, upload_at(ctx, weight, 1), 1e-5F, inout);
      expect_same_bits(download(ctx, inout), got);
    }
  }
}

TEST_F(RmsNormOnGpu, WritesAnotherTypeThanItReads) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const std::int64_t width : {1L, 7L, 33L, 192L, 1153L, 4096L, 20001L}) {
    for (const DType from : kFloatTypes) {
      for (const DType to : kFloatTypes) {
        const Tensor x = random({2, 5, width}, from, ++seed, 3);
        const Tensor weight = random({width}, DType::f32, ++seed);
        Tensor want(x.shape(), DType::f32);
        rms_norm(cpu, as(x, DType::f32), weight, 1e-6F, want);
        Tensor out = poisoned(ctx, x.shape(), to);
        rms_norm(ctx, upload(ctx, x), upload(ctx, weight), 1e-6F, out);
        const Tensor got = download(ctx, out);
        expect_close(got, want, rounding_of(to));
        Tensor moved = poisoned_at(ctx, x.shape(), to, 1);
        rms_norm(ctx, upload_at(ctx, x, 1), upload_at(ctx, weight, 1), 1e-6F,
                 moved);
        expect_same_bits(download(ctx, moved), got);
      }
    }
  }
}

TEST_F(RmsNormOnGpu, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  ExecContext ctx(1, kGpu);
  for (const std::int64_t width : {7, 128, 1536, 40000}) {
    const Tensor x = random({23, width}, DType::bf16, 1);
    const Tensor weight = upload(ctx, random({width}, DType::f32, 2));
    Tensor all = upload(ctx, x);
    rms_norm(ctx, all, weight, 1e-6F, all);
    Tensor one = upload(ctx, x.slice(17, 18));
    rms_norm(ctx, one, weight, 1e-6F, one);
    expect_same_bits(download(ctx, one), download(ctx, all).slice(17, 18));
  }
}

}  // namespace
}  // namespace troupe::kernels
