#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

// Errors (all): Errc::shape_mismatch, Errc::invalid_argument.

/// x += gate · y, the gated residual of adaLN-zero blocks.
/// Shapes: x [B, N, D] f32, y [B, N, D] f32 or bf16 (on a GPU also f16); gate
/// is D columns of `modulation` [B, W] f32 from `gate_column` on.
void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x);

/// x += y. Shapes are equal; dtypes are f32 or bf16 (on a GPU also f16).
void add(ExecContext& ctx, const Tensor& y, Tensor& x);

/// x += a vector of its item, the same for all pixels (or tokens) of the item.
/// Shapes: x [B, ..., C] f32 or bf16 (on a GPU also f16); the vectors are C
/// columns of `vectors` [B, W] f32 from `column` on. The sum is rounded once.
void add_channels(ExecContext& ctx, const Tensor& vectors, std::int64_t column,
                  Tensor& x);

/// out = x in out's dtype, rounded to nearest even. CPU: f32, bf16 and f16 to
/// f32; f32 and bf16 to bf16. GPU: all pairs of the three.
void convert(ExecContext& ctx, const Tensor& x, Tensor& out);

/// One term of a linear combination.
struct Term {
  double coefficient;
  const Tensor* tensor;  ///< f32, same shape as the output
};

/// out = Σ coefficient · tensor, for 1 to 8 terms. `out` may alias any term.
/// Every solver step is one or two of these.
///
/// Bits: f32 arithmetic, terms added left to right; every product and every sum
///       is rounded, without fused multiply-add. So the bits are the same on
///       every device and for every vector width.
/// On the CPU the calling thread does all of it: latents are small.
void combine(ExecContext& ctx, std::span<const Term> terms, Tensor& out);

/// Clamps x to [low, high] in place; f32. NaN stays NaN. A range that is empty
/// or has a NaN is an error.
void clamp(ExecContext& ctx, double low, double high, Tensor& x);

/// Classifier-free guidance: out = uncond + scale · (cond − uncond) for the
/// first `num_guided` items of the outermost axis (channels), out = cond for
/// the rest. f32 arithmetic, rounded after each operation. All f32 of one shape
/// with at least one axis; out may alias either.
/// Source: Ho & Salimans 2022, arXiv:2207.12598.
void guide(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
           double scale, std::int64_t num_guided, Tensor& out);

/// x = share · x · (s / s_x) + (1 − share) · x, where s and s_x are the
/// standard deviations of `like` and x over all their elements (n − 1 in the
/// denominator). Sums are in double, in an order that depends on the number of
/// elements and the kind of device alone; the rest is f32, rounded after each
/// operation. `like` and x are f32 tensors of one shape that share no memory.
/// Source: Lin et al. 2023, arXiv:2305.08891, section 3.4.
void rescale_deviation(ExecContext& ctx, const Tensor& like, double share,
                       Tensor& x);

/// noise ·= σ, where σ² is what a network says of its own variance, element by
/// element in f32: with v in `variance`, σ² = v, or with `is_range` log σ² lies
/// between log_low (v = −1) and log_high (v = 1). Both tensors are f32 of equal
/// shapes. The bits are the same on every device.
/// Source: Nichol & Dhariwal 2021, arXiv:2102.09672, eq. 15.
/// Errors: Errc::invalid_argument, Errc::shape_mismatch.
void scale_by_learned_variance(ExecContext& ctx, const Tensor& variance,
                               bool is_range, double log_low, double log_high,
                               Tensor& noise);

}  // namespace troupe::kernels
