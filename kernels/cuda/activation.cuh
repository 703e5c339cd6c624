#pragma once

#include <cmath>

#include "kernels/activation.h"
#include "kernels/cuda/units.cuh"

// The nonlinearities of kernels/activation.h for one element. The formulas are
// those of kernels/cpu/vector_math-inl.h. `coarse` forms are for results that
// are then rounded to 16 bits: relative error ≤ 1e-5, half the instructions.

namespace troupe::kernels::cuda {

/// e^x within 2 ulp; coarse: within 2 + 1.2·|x| ulp.
template <bool coarse = false>
TROUPE_DEVICE float exponential(float x) {
#if defined(__CUDA_ARCH__)
  return coarse ? __expf(x) : expf(x);
#else
  return std::exp(x);
#endif
}

/// a / b rounded to nearest; coarse: within 2 ulp, |b| < 2^126.
template <bool coarse = false>
TROUPE_DEVICE float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  return coarse ? __fdividef(a, b) : __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

/// The larger of the two; x if x is NaN.
TROUPE_DEVICE float at_least(float bound, float x) {
  return x < bound ? bound : x;
}

/// Arguments are raised to this. All functions below are −0 there already, and
/// −∞ would give −∞ / ∞.
inline constexpr float kLeast = -3.0e38F;

/// x / (1 + e^(−x)).
template <bool coarse>
TROUPE_DEVICE float silu(float x) {
  x = at_least(kLeast, x);
  return quotient<coarse>(x, add(1.0F, exponential<coarse>(-x)));
}

/// x / (1 + e^(−2u)), u = √(2/π)·(x + 0.044715 x³): the same function as
/// x·(1 + tanh u)/2 without its cancellation.
template <bool coarse>
TROUPE_DEVICE float gelu_tanh(float x) {
  x = at_least(kLeast, x);
  const float factor =
      multiply_add(multiply(x, x), -0.0713548163F, -1.59576912F);
  return quotient<coarse>(x,
                          add(1.0F, exponential<coarse>(multiply(x, factor))));
}

/// x·Φ(x) by Φ(−|x|) = t·Q(t)·e^(−x²/2)/2, t = 1/(1 + |x|/√8): erf would
/// cancel where x is negative.
TROUPE_DEVICE float gelu_erf(float x) {
  x = at_least(kLeast, x);
  const float size = fabsf(x);
  const float t = quotient(1.0F, multiply_add(size, 0.353553391F, 1.0F));
  float q = 0.03671173006296158F;
  q = multiply_add(q, t, -0.1966012865304947F);
  q = multiply_add(q, t, 0.39578521251678467F);
  q = multiply_add(q, t, -0.31090447306632996F);
  q = multiply_add(q, t, -0.00187874014955014F);
  q = multiply_add(q, t, 0.022883811965584755F);
  q = multiply_add(q, t, 0.06009630858898163F);
  q = multiply_add(q, t, 0.18416385352611542F);
  q = multiply_add(q, t, 0.24542570114135742F);
  q = multiply_add(q, t, 0.28222835063934326F);
  q = multiply_add(q, t, 0.2820895314216614F);
  // With what the square lost in rounding, which the exponential would
  // multiply by x².
  const float bounded = size > 14.0F ? 14.0F : size;
  const float square = multiply(bounded, bounded);
  const float lost = multiply_add(bounded, bounded, -square);
  float gauss = exponential(multiply(square, -0.5F));
  gauss = multiply_add(multiply(gauss, -0.5F), lost, gauss);
  const float tail = multiply(multiply(multiply(q, t), gauss), 0.5F);
  return multiply(x, x > 0.0F ? add(1.0F, -tail) : tail);
}

/// x·n/(n + 2), n = e·(e + 2), e = e^x: x·tanh(ln(1 + e)) without the
/// cancellation of a logarithm near 1. From 20 on the quotient is 1.
template <bool coarse>
TROUPE_DEVICE float mish(float x) {
  x = at_least(kLeast, x);
  const float e = exponential<coarse>(x > 20.0F ? 20.0F : x);
  const float n = multiply(e, add(e, 2.0F));
  return multiply(x, quotient<coarse>(n, add(n, 2.0F)));
}

/// x / (1 + e^(−1.702 x)).
template <bool coarse>
TROUPE_DEVICE float gelu_sigmoid(float x) {
  x = at_least(kLeast / 2, x);
  return quotient<coarse>(x,
                          add(1.0F, exponential<coarse>(multiply(x, -1.702F))));
}

/// values = activation(values); the choice is made once for all of them.
template <bool coarse, int N>
TROUPE_DEVICE void activate_all(float (&values)[N], Activation activation) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::silu:
      TROUPE_UNROLL
      for (float& value : values) {
        value = silu<coarse>(value);
      }
      return;
    case Activation::gelu_tanh:
      TROUPE_UNROLL
      for (float& value : values) {
        value = gelu_tanh<coarse>(value);
      }
      return;
    case Activation::gelu_erf:
      TROUPE_UNROLL
      for (float& value : values) {
        value = gelu_erf(value);
      }
      return;
    case Activation::relu:
      TROUPE_UNROLL
      for (float& value : values) {
        value = at_least(0.0F, value);
      }
      return;
    case Activation::mish:
      TROUPE_UNROLL
      for (float& value : values) {
        value = mish<coarse>(value);
      }
      return;
    case Activation::gelu_sigmoid:
      TROUPE_UNROLL
      for (float& value : values) {
        value = gelu_sigmoid<coarse>(value);
      }
      return;
  }
}

TROUPE_DEVICE float activated(float x, Activation activation) {
  float values[1] = {x};
  activate_all<false>(values, activation);
  return values[0];
}

}  // namespace troupe::kernels::cuda
