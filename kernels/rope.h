#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// QK norm and rotary embedding in place: every head of x becomes
/// rotate(x · weight / √(mean(x²) + eps)).
///
/// Shapes: x: `num_heads` · `head_dim` columns from x.column on of a [B, N, W]
///         matrix, f32 or bf16 (on a GPU also f16).
///         weight f32: [head_dim] for a mean over each head (SD3.5, FLUX), or
///         [num_heads · head_dim] for a mean over all heads of a token (Wan).
///         cosines and sines [N, head_dim / 2] f32, by token and pair, the same
///         for all items and heads. If both are empty nothing is rotated
///         (SD3.5), and head_dim may be odd.
/// Maths:  columns 2i and 2i + 1 of a head are a pair (a, b), which becomes
///         (a·cos − b·sin, a·sin + b·cos). Everything is computed in f32, each
///         product is rounded, and the result is rounded once to x's type.
///         diffusers also rounds to the activation type between norm and
///         rotation. It stores each angle twice (repeat_interleave): `cosines`
///         is every second column of its table.
/// Bits:   a token's bits depend on its row and its angles alone.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
/// Source: Su et al. 2021, arXiv:2104.09864, eq. 34; Zhang & Sennrich 2019,
/// arXiv:1910.07467; diffusers models/embeddings.py, apply_rotary_emb.
void rms_norm_rope(ExecContext& ctx, const Tensor& weight,
                   const Tensor& cosines, const Tensor& sines,
                   std::int64_t num_heads, std::int64_t head_dim, float eps,
                   HeadsView& x);

}  // namespace troupe::kernels
