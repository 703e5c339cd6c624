#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// x += gate · y, the gated residual of adaLN-zero blocks.
/// Shapes: x [B, N, D] f32, y [B, N, D] f32 or bf16; gate is D columns of
/// `modulation` [B, W] f32 from `gate_column` on.
void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x);

/// x += y, same shape; x f32 or bf16, y f32 or bf16.
void add(ExecContext& ctx, const Tensor& y, Tensor& x);

/// out = x converted to out's dtype (f32, bf16, f16 → f32; f32 → bf16), round
/// to nearest even.
void convert(ExecContext& ctx, const Tensor& x, Tensor& out);

/// One term of a linear combination.
struct Term {
  double coefficient;
  const Tensor* tensor;  ///< f32, same shape as the output
};

/// out = Σ coefficient · tensor, f32 arithmetic, terms added left to right:
/// the first product is rounded, then each further product and sum. Every
/// solver step is one or two of these, so sequential and parallel runs share
/// one rounding. No fused multiply-add and no vector width enters: the bits are
/// the same on every x86-64. `out` may alias any term. At least one term, at
/// most 8. Errors: Errc::invalid_argument, Errc::shape_mismatch.
/// Thread: uses no pool; latents are small.
void combine(std::span<const Term> terms, Tensor& out);

/// x clamped to [low, high] in place; f32. NaN stays NaN.
void clamp(double low, double high, Tensor& x);

/// Σ (a − b)² in double, in an order fixed by the element count alone. f32.
[[nodiscard]] double sum_squared_difference(const Tensor& a, const Tensor& b);
/// Σ a² in double, in the same fixed order. f32.
[[nodiscard]] double sum_squares(const Tensor& a);
/// True when every element is finite. f32.
[[nodiscard]] bool all_finite(const Tensor& x);

}  // namespace troupe::kernels
