// A device that computes nothing: what it says of operations and memory.

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "kernels/residual_stream.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct Metered {
  explicit Metered(DeviceKind stands_for = DeviceKind::cpu)
      : ctx(std::make_shared<Meter>(stands_for)) {}
  Tensor tensor(const Shape& shape, DType dtype = DType::f32) {
    return ctx.empty(shape, dtype);
  }
  /// Floating-point operations of `work`.
  template <typename Work>
  double flops(const Work& work) {
    const double before = ctx.meter().flops();
    work();
    return ctx.meter().flops() - before;
  }

  ExecContext ctx;
};

TEST(Meter, CountsProductsConvolutionsAndAttention) {
  Metered m;
  const PackedLinear linear_7(m.ctx, m.tensor({7, 5}), m.tensor({7}),
                              DType::bf16);
  EXPECT_EQ(linear_7.num_bytes(), 7U * 5 * 2 + 7 * 4);
  Tensor out = m.tensor({3, 4, 7});
  const Tensor x = m.tensor({3, 4, 5}, DType::bf16);
  EXPECT_EQ(m.flops([&] { linear(m.ctx, x, linear_7, Activation::silu, out); }),
            2.0 * 3 * 4 * 5 * 7);
  EXPECT_EQ(m.flops([&] { linear_add(m.ctx, x, linear_7, out); }),
            2.0 * 3 * 4 * 5 * 7);
  const PackedConv2d conv(m.ctx, m.tensor({6, 2, 3, 3}), m.tensor({6}), 2,
                          Padding::all(1), DType::f32);
  Tensor half = m.tensor({1, 4, 5, 6});
  EXPECT_EQ(m.flops([&] {
    conv2d(m.ctx, m.tensor({1, 8, 9, 2}), conv, half);
  }),
            2.0 * 4 * 5 * 6 * 9 * 2);
  EXPECT_EQ(m.ctx.meter().convolution_thread_bytes(),
            conv2d_thread_bytes(18, DType::f32));
  Tensor attended = m.tensor({2, 10, 24});
  EXPECT_EQ(m.flops([&] {
    attention(m.ctx, {m.tensor({2, 10, 24}), 0}, {m.tensor({2, 30, 48}), 0},
              {m.tensor({2, 30, 48}), 24}, 3, 8, attended);
  }),
            4.0 * 2 * 10 * 30 * 24);
  EXPECT_EQ(m.ctx.meter().attention_thread_bytes(),
            attention_thread_bytes(30, 8, DType::f32));
}

TEST(Meter, ChecksArgumentsAsOtherDevicesDo) {
  Metered m;
  Tensor out = m.tensor({3, 4, 7});
  EXPECT_THROW(add(m.ctx, m.tensor({3, 4, 6}), out), Error);
  EXPECT_THROW(add(m.ctx, Tensor({3, 4, 7}, DType::f32), out), Error);
  ExecContext cpu;
  EXPECT_THROW((void)cpu.meter(), Error);
}

// Its tensors have no memory: an operation that looked at one would end here.
TEST(Meter, ReadsAndWritesNothing) {
  Metered m;
  Tensor x = m.tensor({1, 4, 8});
  const Tensor modulation = m.tensor({1, 24});
  const Tensor weight = m.tensor({8});
  Tensor out = m.tensor({1, 4, 8});
  EXPECT_EQ(m.flops([&] {
    add(m.ctx, out, x);
    add_gated(m.ctx, modulation, 8, out, x);
    add_channels(m.ctx, modulation, 3, x);
    layer_norm(m.ctx, x, weight, weight, 0, out);
    layer_norm_modulate(m.ctx, x, modulation, 0, 8, 0, out);
    add_layer_norm_modulate(m.ctx, modulation, 1, out, 0, 8, 0, x, out);
    rms_norm(m.ctx, x, weight, 0, out);
    activate(m.ctx, x, Activation::silu, out);
    Tensor narrow = m.tensor({1, 4, 4}, DType::bf16);
    activate_gated(m.ctx, x, Activation::silu, narrow);
    convert(m.ctx, narrow, narrow);
    Tensor pixels = m.tensor({1, 2, 2, 8});
    group_norm(m.ctx, pixels, weight, weight, 2, 0, Activation::none, pixels);
    Tensor doubled = m.tensor({1, 4, 4, 8});
    upsample_nearest2x(m.ctx, pixels, doubled);
    Tensor both = m.tensor({1, 2, 2, 16});
    concat_channels(m.ctx, pixels, pixels, both);
    Tensor image = m.tensor({1, 8, 2, 2});
    to_channels_first(m.ctx, pixels, image);
    to_channels_last(m.ctx, image, pixels);
    Tensor patches = m.tensor({1, 1, 32});
    patchify(m.ctx, image, 2, patches);
    unpatchify(m.ctx, patches, 2, image);
    const std::vector<double> timesteps = {1, 2};
    Tensor embedded = m.tensor({2, 6});
    timestep_embedding(m.ctx, timesteps, 0, 10, embedded);
    Tensor copied = clone(m.ctx, Tensor::zeros({4, 8}, DType::f32));
    gather(m.ctx, std::vector<Tensor>{copied}, x);
    scatter(m.ctx, x, std::span(&copied, 1));
    copy(m.ctx, x.item(0), copied);
  }),
            0);
}

/// Bytes that the workspace held at a time for a product behind an activation
/// and one that is added.
std::size_t peak_of(ExecContext& ctx, Activation activation) {
  const auto tensor = [&](const Shape& shape, DType dtype) {
    return ctx.empty(shape, dtype);
  };
  const PackedLinear packed(ctx, tensor({64, 64}, DType::bf16), {},
                            DType::bf16);
  const Workspace::Scope scope(ctx.workspace());
  Tensor x = ctx.workspace().take({1, 32, 64}, DType::bf16);
  Tensor out = ctx.workspace().take({1, 32, 64}, DType::bf16);
  linear(ctx, x, packed, activation, out);
  return ctx.workspace().peak_bytes();
}

TEST(Meter, NotesTheMemoryOfTheDeviceThatItStandsFor) {
  constexpr std::size_t kOperands = 2U * 32 * 64 * 2;
  constexpr std::size_t kProduct = 32U * 64 * 4;
  Metered cpu;
  EXPECT_EQ(peak_of(cpu.ctx, Activation::silu), kOperands);
  EXPECT_EQ(cpu.ctx.kind(), DeviceKind::cpu);
  Metered gpu(DeviceKind::cuda);
  EXPECT_EQ(peak_of(gpu.ctx, Activation::gelu_tanh), kOperands);
  EXPECT_EQ(peak_of(gpu.ctx, Activation::silu), kOperands + kProduct);
  EXPECT_EQ(gpu.ctx.kind(), DeviceKind::cuda);
}

std::size_t convolution_peak(ExecContext& ctx, const Padding& padding) {
  const PackedConv2d conv(ctx, ctx.empty({6, 128, 3, 3}, DType::f32), {}, 2,
                          padding, DType::bf16);
  Tensor out = ctx.empty({3, 4, 5, 6}, DType::bf16);
  conv2d(ctx, ctx.empty({3, 8, 10, 128}, DType::bf16), conv, out);
  return ctx.workspace().peak_bytes();
}

TEST(Meter, NotesTheGpusCopyWithUnequalPadding) {
  Metered gpu(DeviceKind::cuda);
  EXPECT_EQ(convolution_peak(gpu.ctx, Padding::all(1)), 0U);
  EXPECT_EQ(convolution_peak(gpu.ctx, {.bottom = 1, .left = 1, .right = 1}),
            3U * 9 * 10 * 128 * 2);
  EXPECT_EQ(convolution_peak(gpu.ctx, {.bottom = 1, .right = 1}),
            3U * 9 * 11 * 128 * 2);
  Metered cpu;
  EXPECT_EQ(convolution_peak(cpu.ctx, {.bottom = 1, .right = 1}), 0U);
}

}  // namespace
}  // namespace troupe::kernels
