// Included once per instruction set by Highway's foreach_target; hence the
// guard that flips.
#if defined(TROUPE_KERNELS_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_VECTOR_MATH_INL_H_
#undef TROUPE_KERNELS_CPU_VECTOR_MATH_INL_H_
#else
#define TROUPE_KERNELS_CPU_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/activation.h"
#include "kernels/core/dtype.h"

#ifndef TROUPE_KERNELS_CPU_NATIVE_BFLOAT16_
#define TROUPE_KERNELS_CPU_NATIVE_BFLOAT16_
namespace troupe::kernels::cpu {
/// bf16 to be written by the CPU's own conversion (AVX512_BF16, one instruction
/// instead of nine; subnormal numbers become zero).
struct NativeBfloat16 {
  std::uint16_t bits;
};
}  // namespace troupe::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;
using Vec = hn::Vec<F32>;

HWY_INLINE Vec load(F32 d, const float* p) { return hn::LoadU(d, p); }
HWY_INLINE Vec load(F32 d, const bfloat16* p) {
  const auto half = hn::LoadU(U16(), reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(U32(), half)));
}

HWY_INLINE void store(F32 d, Vec v, float* p) { hn::StoreU(v, d, p); }
// The rounding of bfloat16::from_float, lane by lane.
HWY_INLINE void store(F32 d, Vec v, bfloat16* p) {
  const U32 du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded =
      hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffU))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40U));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  const auto chosen = hn::IfThenElse(is_nan, quiet, rounded);
  const auto half = hn::DemoteTo(U16(), hn::BitCast(I32(), chosen));
  hn::StoreU(half, U16(), reinterpret_cast<std::uint16_t*>(p));
  (void)d;
}

HWY_INLINE void store(F32 d, Vec v, NativeBfloat16* p) {
#if HWY_TARGET <= HWY_AVX3 && defined(__x86_64__)
  // Highway 1.0 has no name for it.
  hn::Vec<U16> half;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(half.raw) : "v"(v.raw));
  hn::StoreU(half, U16(), &p->bits);
  (void)d;
#else
  store(d, v, reinterpret_cast<bfloat16*>(p));
#endif
}

// The last elements of a row go through a full vector in a buffer: the same
// instructions as all others, and nothing read or written beyond the end.
template <typename T>
HWY_INLINE Vec load_n(F32 d, const T* p, std::size_t count) {
  T buffer[hn::MaxLanes(F32())] = {};
  std::memcpy(buffer, p, count * sizeof(T));
  return load(d, buffer);
}
template <typename T>
HWY_INLINE void store_n(F32 d, Vec v, T* p, std::size_t count) {
  T buffer[hn::MaxLanes(F32())];
  store(d, v, buffer);
  std::memcpy(p, buffer, count * sizeof(T));
}

/// Calls fn(i, load, store) for vectors of [0, count), the last one partial.
template <typename Fn>
HWY_INLINE void for_vectors(F32 d, std::size_t count, const Fn& fn) {
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    fn(
        i, [d](const auto* p) HWY_ATTR { return load(d, p); },
        [d](Vec v, auto* p) HWY_ATTR { store(d, v, p); });
  }
  if (i < count) {
    const std::size_t rest = count - i;
    fn(
        i, [d, rest](const auto* p) HWY_ATTR { return load_n(d, p, rest); },
        [d, rest](Vec v, auto* p) HWY_ATTR { store_n(d, v, p, rest); });
  }
}

/// e^x with x clamped to ±87: relative error ≤ 3e-7, no result is subnormal or
/// infinite; NaN stays NaN.
HWY_INLINE Vec exp_vec(F32 d, Vec x) {
  // x second: on NaN x86's minimum returns its second operand.
  x = hn::Max(hn::Set(d, -87.0F), hn::Min(hn::Set(d, 87.0F), x));
  // Adding 1.5·2²³ leaves the nearest integer in the lowest bits; 127 more make
  // it the exponent field of a power of two.
  const Vec big = hn::Set(d, 12582912.0F + 127.0F);
  const Vec shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), big);
  const Vec n = hn::Sub(shifted, big);
  Vec r = hn::NegMulAdd(n, hn::Set(d, 0.693145752F), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6F), r);
  // Our fit over |r| ≤ ln 2 / 2, relative error 1.1e-7.
  Vec p = hn::Set(d, 0.00831248052418232F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.04189055785536766F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16667115688323975F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.4999922811985016F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  return hn::Mul(
      p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(I32(), shifted))));
}

/// 1/x for 1 ≤ x ≤ 2¹²⁶ to 1e-7, exact for 1; NaN stays NaN. A third of a
/// division's time, and unlike the instructions that approximate, the same
/// bits on every CPU.
HWY_INLINE Vec reciprocal_vec(F32 d, Vec x) {
  const I32 di;
  const Vec one = hn::Set(d, 1.0F);
  // Negating the exponent gives 5 %; a cubic and a quadratic step follow.
  Vec y = hn::BitCast(d, hn::Sub(hn::Set(di, 0x7ef31000), hn::BitCast(di, x)));
  Vec error = hn::NegMulAdd(x, y, one);
  y = hn::MulAdd(y, hn::MulAdd(error, error, error), y);
  error = hn::NegMulAdd(x, y, one);
  return hn::MulAdd(y, error, y);
}

/// 2^x for |x| ≤ 126, relative error 1e-4: enough where bf16 is written.
HWY_INLINE Vec coarse_power_of_two(F32 d, Vec x) {
  const Vec big = hn::Set(d, 12582912.0F + 127.0F);
  const Vec shifted = hn::Add(x, big);
  const Vec r = hn::Sub(x, hn::Sub(shifted, big));
  Vec p = hn::Set(d, 0.0550079345703125F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.24221496284008026F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.6932834982872009F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  return hn::Mul(
      p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(I32(), shifted))));
}

/// reciprocal_vec to 1.3e-4.
HWY_INLINE Vec coarse_reciprocal(F32 d, Vec x) {
  const I32 di;
  const Vec y =
      hn::BitCast(d, hn::Sub(hn::Set(di, 0x7ef31000), hn::BitCast(di, x)));
  const Vec error = hn::NegMulAdd(x, y, hn::Set(d, 1.0F));
  return hn::MulAdd(y, hn::MulAdd(error, error, error), y);
}

/// x / (1 + e^negated).
HWY_INLINE Vec sigmoid_times(F32 d, Vec x, Vec negated) {
  return hn::Mul(
      x, reciprocal_vec(d, hn::Add(hn::Set(d, 1.0F), exp_vec(d, negated))));
}
/// x / (1 + 2^negated) for negated ≤ 126.
HWY_INLINE Vec coarse_sigmoid_times(F32 d, Vec x, Vec negated) {
  negated = hn::Max(hn::Set(d, -126.0F), negated);
  return hn::Mul(
      x, coarse_reciprocal(
             d, hn::Add(hn::Set(d, 1.0F), coarse_power_of_two(d, negated))));
}

// Both end at a number of about −1e-36 instead of −0: clamping x, second for
// NaN's sake, keeps the exponential finite and takes x itself from the product.
template <bool coarse>
HWY_INLINE Vec silu_vec(F32 d, Vec x) {
  x = hn::Max(hn::Set(d, -87.0F), x);
  if constexpr (coarse) {
    return coarse_sigmoid_times(d, x, hn::Mul(x, hn::Set(d, -1.44269504F)));
  } else {
    return sigmoid_times(d, x, hn::Neg(x));
  }
}

// gelu_tanh(x) = x / (1 + e^(−2u)), u = √(2/π)·(x + 0.044715 x³): the same
// function without the cancellation of 1 + tanh(u).
template <bool coarse>
HWY_INLINE Vec gelu_tanh_vec(F32 d, Vec x) {
  x = hn::Max(hn::Set(d, -9.99F), x);
  const Vec x2 = hn::Mul(x, x);
  if constexpr (coarse) {
    const Vec factor =
        hn::MulAdd(x2, hn::Set(d, -0.102943240F), hn::Set(d, -2.30220819F));
    return coarse_sigmoid_times(d, x, hn::Mul(x, factor));
  } else {
    const Vec factor =
        hn::MulAdd(x2, hn::Set(d, -0.0713548163F), hn::Set(d, -1.59576912F));
    return sigmoid_times(d, x, hn::Mul(x, factor));
  }
}

// gelu_erf(x) = x·Φ(x). Φ(−|x|) = erfc(z)/2, z = |x|/√2, and erfc(z) =
// t·Q(t)·e^(−z²) with t = 1/(1 + z/2); Q is our least-squares fit over
// z ≤ 10.5 with relative error 4e-9.
HWY_INLINE Vec gelu_erf_vec(F32 d, Vec x) {
  const Vec one = hn::Set(d, 1.0F);
  const Vec t =
      hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.353553391F), one));
  Vec q = hn::Set(d, 0.03671173006296158F);
  q = hn::MulAdd(q, t, hn::Set(d, -0.1966012865304947F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.39578521251678467F));
  q = hn::MulAdd(q, t, hn::Set(d, -0.31090447306632996F));
  q = hn::MulAdd(q, t, hn::Set(d, -0.00187874014955014F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.022883811965584755F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.06009630858898163F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.18416385352611542F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.24542570114135742F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.28222835063934326F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.2820895314216614F));
  // e^(−x²/2) with what the square lost in rounding, which the exponential
  // would multiply by x².
  const Vec size = hn::Min(hn::Set(d, 14.0F), hn::Abs(x));
  const Vec square = hn::Mul(size, size);
  const Vec lost = hn::MulSub(size, size, square);
  const Vec half = hn::Set(d, 0.5F);
  Vec gauss = exp_vec(d, hn::Mul(square, hn::Neg(half)));
  gauss = hn::NegMulAdd(hn::Mul(gauss, half), lost, gauss);
  const Vec tail = hn::Mul(hn::Mul(hn::Mul(q, t), gauss), half);
  const Vec phi =
      hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, tail), tail);
  return hn::Mul(x, phi);
}

HWY_INLINE Vec relu_vec(F32 d, Vec x) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
}

// mish(x) = x·tanh(ln(1 + e)), e = e^x: with n = e·(e + 2) it is x·n/(n + 2),
// without the cancellation of a logarithm near 1. From 20 on the quotient is 1.
HWY_INLINE Vec mish_vec(F32 d, Vec x) {
  x = hn::Max(hn::Set(d, -87.0F), x);
  const Vec two = hn::Set(d, 2.0F);
  const Vec e = exp_vec(d, hn::Min(hn::Set(d, 20.0F), x));
  const Vec n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}

// gelu_sigmoid(x) = x / (1 + e^(−1.702 x)).
template <bool coarse>
HWY_INLINE Vec gelu_sigmoid_vec(F32 d, Vec x) {
  x = hn::Max(hn::Set(d, -51.0F), x);
  if constexpr (coarse) {
    return coarse_sigmoid_times(d, x, hn::Mul(x, hn::Set(d, -2.45546696F)));
  } else {
    return sigmoid_times(d, x, hn::Mul(x, hn::Set(d, -1.702F)));
  }
}

/// For results of type Out.
template <Activation activation, typename Out>
HWY_INLINE Vec activation_vec(F32 d, Vec x) {
  constexpr bool kCoarse = !std::is_same_v<Out, float>;
  if constexpr (activation == Activation::silu) {
    return silu_vec<kCoarse>(d, x);
  } else if constexpr (activation == Activation::gelu_tanh) {
    return gelu_tanh_vec<kCoarse>(d, x);
  } else if constexpr (activation == Activation::gelu_erf) {
    return gelu_erf_vec(d, x);
  } else if constexpr (activation == Activation::relu) {
    return relu_vec(d, x);
  } else if constexpr (activation == Activation::mish) {
    return mish_vec(d, x);
  } else if constexpr (activation == Activation::gelu_sigmoid) {
    return gelu_sigmoid_vec<kCoarse>(d, x);
  } else {
    return x;
  }
}

/// Calls fn.operator()<activation>() for a value known at run time only.
template <typename Fn>
HWY_INLINE void with_activation(Activation activation, const Fn& fn) {
  switch (activation) {
    case Activation::none:
      return fn.template operator()<Activation::none>();
    case Activation::silu:
      return fn.template operator()<Activation::silu>();
    case Activation::gelu_tanh:
      return fn.template operator()<Activation::gelu_tanh>();
    case Activation::gelu_erf:
      return fn.template operator()<Activation::gelu_erf>();
    case Activation::relu:
      return fn.template operator()<Activation::relu>();
    case Activation::mish:
      return fn.template operator()<Activation::mish>();
    case Activation::gelu_sigmoid:
      return fn.template operator()<Activation::gelu_sigmoid>();
  }
}

}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
