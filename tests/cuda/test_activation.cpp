#include "kernels/activation.h"
#include "kernels/core/error.h"
#include "tests/cuda/row_support.h"

namespace troupe::kernels {
namespace {

constexpr Activation kActivations[] = {
    Activation::none,        Activation::silu, Activation::gelu_tanh,
    Activation::gelu_erf,    Activation::relu, Activation::mish,
    Activation::gelu_sigmoid};
// Parts of a block, whole blocks, and a part after them.
constexpr std::int64_t kActivationCounts[] = {0,   1,    2,    7,     8,    9,
                                              255, 4096, 8192, 12289, 40001};

class ActivationOnGpu : public CudaTest {};

TEST_F(ActivationOnGpu, AgreesWithTheCpuForEverySizeAndType) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const Activation activation : kActivations) {
    for (const DType from : kFloatTypes) {
      for (const DType to : kFloatTypes) {
        for (const std::int64_t count : kActivationCounts) {
          const Tensor x = random({count}, from, ++seed, 4);
          Tensor want({count}, DType::f32);
          activate(cpu, as(x, DType::f32), activation, want);
          Tensor out = poisoned(ctx, {count}, to);
          activate(ctx, upload(ctx, x), activation, out);
          expect_close(download(ctx, out), want, rounding_of(to), 0.01);
        }
      }
    }
  }
}

TEST_F(ActivationOnGpu, IgnoresAlignmentAndMayWorkInPlace) {
  ExecContext ctx(1, kGpu);
  for (const DType dtype : kFloatTypes) {
    for (const Activation activation : kActivations) {
      const Tensor x = random({9, 2111}, dtype, 3);
      Tensor out = poisoned(ctx, x.shape(), dtype);
      activate(ctx, upload(ctx, x), activation, out);
      Tensor inout = upload(ctx, x);
      activate(ctx, inout, activation, inout);
      expect_same_bits(download(ctx, inout), download(ctx, out));
      Tensor moved = upload_at(ctx, x, 1);
      activate(ctx, moved, activation, moved);
      expect_same_bits(download(ctx, moved), download(ctx, out));
    }
  }
}

TEST_F(ActivationOnGpu, AgreesWithTheCpuBehindAGate) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1000;
  for (const Activation activation : kActivations) {
    for (const DType from : kFloatTypes) {
      for (const DType to : kFloatTypes) {
        for (const std::int64_t width : {1, 7, 8, 24, 4099}) {
          const Tensor x = random({2, 3, 2 * width}, from, ++seed, 4);
          Tensor want({2, 3, width}, DType::f32);
          activate_gated(cpu, as(x, DType::f32), activation, want);
          Tensor out = poisoned(ctx, {2, 3, width}, to);
          activate_gated(ctx, upload(ctx, x), activation, out);
          expect_close(download(ctx, out), want, rounding_of(to), 0.01);
          Tensor again = poisoned(ctx, {2, 3, width}, to);
          activate_gated(ctx, upload_at(ctx, x, 1), activation, again);
          expect_same_bits(download(ctx, again), download(ctx, out));
        }
      }
    }
  }
}

/// |got − want| ≤ relative · |want| + absolute, for results in f32.
void expect_within(const Tensor& got, const Tensor& want, double relative,
                   double absolute) {
  for (std::int64_t i = 0; i < want.num_elements(); ++i) {
    const double a = value_of(got, i);
    const double b = value_of(want, i);
    ASSERT_LE(std::abs(a - b), relative * std::abs(b) + absolute)
        << "element " << i << ": got " << a << ", want " << b;
  }
}

TEST_F(ActivationOnGpu, IsAsExactAsTheHeaderSays) {
  ExecContext ctx(1, kGpu);
  constexpr std::int64_t kPoints = 40000;
  for (const Activation activation : kActivations) {
    Tensor x({kPoints}, DType::f32);
    Tensor want({kPoints}, DType::f32);
    for (std::int64_t i = 0; i < kPoints; ++i) {
      const double from = activation == Activation::gelu_tanh      ? -3
                          : activation == Activation::gelu_sigmoid ? -4
                                                                   : -8;
      const auto value = static_cast<float>(
          from + 0.0001 + 20.0 * static_cast<double>(i) / kPoints);
      const double v = value;
      const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
      const double exact =
          activation == Activation::none        ? v
          : activation == Activation::silu      ? v / (1 + std::exp(-v))
          : activation == Activation::gelu_tanh ? v / (1 + std::exp(-2 * u))
          : activation == Activation::relu      ? (v < 0 ? 0 : v)
          : activation == Activation::mish
              ? v * std::tanh(std::log1p(std::exp(v)))
          : activation == Activation::gelu_sigmoid
              ? v / (1 + std::exp(-1.702 * v))
              : 0.5 * v * std::erfc(-v / std::sqrt(2.0));
      x.data<float>()[i] = value;
      want.data<float>()[i] = static_cast<float>(exact);
    }
    Tensor out = poisoned(ctx, x.shape(), DType::f32);
    activate(ctx, upload(ctx, x), activation, out);
    expect_within(download(ctx, out), want, 1.1e-6, 1e-30);
  }
}

TEST_F(ActivationOnGpu, KeepsNanAndFarEnds) {
  ExecContext ctx(1, kGpu);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float values[] = {std::nanf(""), kInf, 1e30F, -1e30F,
                          -200,          0,    -0.0F, -kInf};
  const float none = std::nanf("");
  const float wanted[] = {none, kInf, 1e30F, 0, 0, 0, 0, 0};
  const Tensor x = Tensor::from<float>(values, {8});
  const Tensor want = Tensor::from<float>(wanted, {8});
  for (const Activation activation :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
        Activation::relu, Activation::mish, Activation::gelu_sigmoid}) {
    Tensor out = poisoned(ctx, {8}, DType::f32);
    activate(ctx, upload(ctx, x), activation, out);
    expect_close(download(ctx, out), want, 0, 0);
    Tensor coarse = poisoned(ctx, {8}, DType::bf16);
    activate(ctx, upload(ctx, x), activation, coarse);
    expect_close(download(ctx, coarse), as(want, DType::bf16), 0, 0);
  }
}

}  // namespace
}  // namespace troupe::kernels
