#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/error.h"
#include "kernels/cuda/launch.cuh"

// Arithmetic and conversions of single elements, for nvcc and for the host
// (launch.cuh) with the same bits.

namespace troupe::kernels::cuda {

/// Products and sums that no compiler fuses into a multiply-add. Used where
/// bits are promised.
TROUPE_DEVICE float multiply(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
TROUPE_DEVICE float add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
/// a · b + c, rounded once, in float or double.
template <typename Real>
TROUPE_DEVICE Real multiply_add(Real a, Real b, Real c) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Real, float>) {
    return __fmaf_rn(a, b, c);
  } else {
    return __fma_rn(a, b, c);
  }
#else
  return std::fma(a, b, c);
#endif
}

TROUPE_DEVICE float to_float(float x) { return x; }
TROUPE_DEVICE float to_float(bfloat16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16U;
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
TROUPE_DEVICE float to_float(float16 x) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
#else
  return x.to_float();
#endif
}

/// Rounds to nearest even.
template <typename T>
TROUPE_DEVICE T from_float(float x);
template <>
TROUPE_DEVICE float from_float<float>(float x) {
  return x;
}
template <>
TROUPE_DEVICE bfloat16 from_float<bfloat16>(float x) {
#if defined(__CUDA_ARCH__)
  bfloat16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
#else
  return bfloat16::from_float(x);
#endif
}
template <>
TROUPE_DEVICE float16 from_float<float16>(float x) {
#if defined(__CUDA_ARCH__)
  float16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
#else
  return float16::from_float(x);
#endif
}

/// Elements of T in 16 bytes.
template <typename T>
inline constexpr int kPerLoad = 16 / static_cast<int>(sizeof(T));

/// Calls fn with a value of the element type that `dtype` names: float,
/// bfloat16 or float16. Errors: Errc::internal for other dtypes.
template <typename Fn>
void with_element(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::f32:
      return fn(float{});
    case DType::bf16:
      return fn(bfloat16{});
    case DType::f16:
      return fn(float16{});
    default:
      throw Error(Errc::internal, "cuda", "no kernel for this element type");
  }
}

}  // namespace troupe::kernels::cuda
