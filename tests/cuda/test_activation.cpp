#include "kernels/activation.h"
#include "kernels/core/error.h"
#include "tests/cuda/support.h"

namespace troupe::kernels {
namespace {

constexpr Activation kActivations[] = {Activation::none, Activation::silu,
                                       Activation::gelu_tanh,
                                       Activation::gelu_erf};
constexpr std::int64_t kCounts[] = {0, 1, 2, 7, 8, 9, 255, 2048, 2049, 40001};

class ActivationOnGpu : public CudaTest {};

TEST_F(ActivationOnGpu, AgreesWithTheCpuForEverySizeAndType) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const Activation activation : kActivations) {
    for (const DType from : {DType::f32, DType::bf16}) {
      for (const DType to : {DType::f32, DType::bf16}) {
        for (const std::int64_t count : kCounts) {
          const Tensor x = random({count}, from, ++seed, 4);
          Tensor want({count}, to);
          activate(cpu, x, activation, want);
          const Tensor on_gpu = upload(ctx, x);
          Tensor out = poisoned(ctx, {count}, to);
          activate(ctx, on_gpu, activation, out);
          expect_close(download(ctx, out), want, tolerance_of(to));
        }
      }
    }
  }
}

TEST_F(ActivationOnGpu, MayWorkInPlace) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  const Tensor x = random({5, 333}, DType::f32, 3);
  Tensor want(x.shape(), DType::f32);
  activate(cpu, x, Activation::silu, want);
  Tensor inout = upload(ctx, x);
  activate(ctx, inout, Activation::silu, inout);
  expect_close(download(ctx, inout), want, tolerance_of(DType::f32));
}

TEST_F(ActivationOnGpu, KeepsNanAndFarEnds) {
  ExecContext ctx(1, kGpu);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float values[] = {std::nanf(""), kInf, 1e30F, -1e30F, -200, 0, -0.0F};
  const float none = std::nanf("");
  // x · sigmoid(x): −∞ · 0 is not tested, it has no value.
  const float wanted[] = {none, kInf, 1e30F, 0, 0, 0, 0};
  const Tensor x = Tensor::from<float>(values, {7});
  for (const Activation activation : {Activation::silu, Activation::gelu_erf}) {
    Tensor out = poisoned(ctx, {7}, DType::f32);
    activate(ctx, upload(ctx, x), activation, out);
    expect_close(download(ctx, out), Tensor::from<float>(wanted, {7}), 0, 0);
  }
}

TEST_F(ActivationOnGpu, RefusesMemoryOfTheHost) {
  ExecContext ctx(1, kGpu);
  Tensor host({4}, DType::f32);
  EXPECT_THROW(activate(ctx, host, Activation::silu, host), Error);
}

}  // namespace
}  // namespace troupe::kernels
