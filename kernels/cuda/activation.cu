#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

/// exp of an f32 within 2 ulp.
TROUPE_DEVICE float exponential(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  return std::exp(x);
#endif
}

TROUPE_DEVICE float activated(float x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::silu:
      return x / (1.0F + exponential(-x));
    case Activation::gelu_tanh: {
      // ½(1 + tanh u) = 1 / (1 + exp(−2u)), u = √(2/π)·(x + 0.044715 x³).
      const float u = 0.7978845608F * (x + 0.044715F * x * x * x);
      return x / (1.0F + exponential(-2.0F * u));
    }
    case Activation::gelu_erf:
      return 0.5F * x * (1.0F + erff(x * 0.7071067812F));
  }
  return x;
}

/// out[i] = activation(x[i]), a pack per thread, then the rest one by one.
template <typename From, typename To>
struct Activate {
  static constexpr const char* kName = "activate";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  /// As many elements as the wider type moves at once in two packs.
  static constexpr int kEach = 8;

  const From* x;
  To* out;
  std::int64_t count;
  Activation activation;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t at =
        (lane.block() * kThreads + lane.thread()) * std::int64_t{kEach};
    for (int i = 0; i < kEach && at + i < count; ++i) {
      out[at + i] = from_float<To>(activated(to_float(x[at + i]), activation));
    }
  }
};

}  // namespace

void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out) {
  Backend& backend = Backend::of(ctx);
  with_element(x.dtype(), [&](auto from) {
    with_element(out.dtype(), [&](auto to) {
      using Kernel = Activate<decltype(from), decltype(to)>;
      const Kernel kernel{x.data<decltype(from)>(), out.data<decltype(to)>(),
                          x.num_elements(), activation};
      launch(backend, kernel,
             {blocks_for(kernel.count, Kernel::kThreads * Kernel::kEach)});
    });
  });
}

}  // namespace troupe::kernels::cuda
