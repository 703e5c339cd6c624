#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// x += gate · y, the gated residual of adaLN-zero blocks.
/// Shapes: x [B, N, D] f32, y [B, N, D] f32 or bf16 (f16 too on a GPU); gate is
/// D columns of `modulation` [B, W] f32 from `gate_column` on.
void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x);

/// x += y, same shape; x f32 or bf16, y f32 or bf16; f16 too on a GPU.
void add(ExecContext& ctx, const Tensor& y, Tensor& x);

/// out = x converted to out's dtype, round to nearest even: f32, bf16, f16 to
/// f32; f32 and bf16 to bf16; on a GPU every one of them to every other.
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
/// the same on every device. `out` may alias any term. At least one term, at
/// most 8. Errors: Errc::invalid_argument, Errc::shape_mismatch.
/// On the CPU it uses no pool; latents are small.
void combine(ExecContext& ctx, std::span<const Term> terms, Tensor& out);

/// x clamped to [low, high] in place; f32. NaN stays NaN.
/// Errors: Errc::invalid_argument when the range is empty or NaN.
void clamp(ExecContext& ctx, double low, double high, Tensor& x);

/// out = uncond + scale · (cond − uncond) on the first `num_guided` items of
/// the outermost axis, cond on the rest; f32 arithmetic, rounded after each
/// operation. All f32 of one shape with at least one axis; out may alias
/// either.
/// Source: Ho & Salimans 2022, arXiv:2207.12598.
/// Errors: Errc::invalid_argument, Errc::shape_mismatch.
void guide(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
           double scale, std::int64_t num_guided, Tensor& out);

/// noise ·= σ, where σ² is what a network says of its own variance, element by
/// element in f32: with v in `variance`, σ² = v, or with `is_range` log σ² lies
/// between log_low (v = −1) and log_high (v = 1). Both f32 of one shape. The
/// bits are the same on every device.
/// Source: Nichol & Dhariwal 2021, arXiv:2102.09672, eq. 15.
/// Errors: Errc::invalid_argument, Errc::shape_mismatch.
void scale_by_learned_variance(ExecContext& ctx, const Tensor& variance,
                               bool is_range, double log_low, double log_high,
                               Tensor& noise);

}  // namespace troupe::kernels
