#pragma once

#include <cmath>

#include "kernels/activation.h"
#include "kernels/cuda/launch.cuh"

// The nonlinearities of kernels/activation.h as kernels see them.

namespace troupe::kernels::cuda {

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

}  // namespace troupe::kernels::cuda
