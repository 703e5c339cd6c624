#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// out = layer_norm(x) · (1 + scale) + shift; no learned affine part.
///
/// Shapes: x [B, N, D] f32; shift and scale [B, D] f32 (rows may be slices of
///         a wider [B, W] modulation matrix: see `columns`); out [B, N, D] f32
///         or bf16.
/// Source: Peebles & Xie 2023, arXiv:2212.09748 (adaLN).
/// `modulation` is [B, W]; shift starts at column `shift_column`, scale at
/// `scale_column`, both D wide.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
void layer_norm_modulate(ExecContext& ctx, const Tensor& x,
                         const Tensor& modulation, std::int64_t shift_column,
                         std::int64_t scale_column, float eps, Tensor& out);

/// out = x · weight / sqrt(mean(x²) + eps) over the last axis.
/// Shapes: x [..., D] f32 or bf16, weight [D] f32, out like x. May alias x.
/// Source: Zhang & Sennrich 2019, arXiv:1910.07467.
void rms_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
              float eps, Tensor& out);

/// out = activation(group_norm(x) · weight + bias), statistics per (item,
/// group) over all pixels in a fixed order.
/// Shapes: x [B, H, W, C] f32 or bf16 (channels last), weight and bias [C] f32,
///         out like x. May alias x. C must be a multiple of num_groups.
/// Source: Wu & He 2018, arXiv:1803.08494.
void group_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, std::int64_t num_groups, float eps,
                Activation activation, Tensor& out);

}  // namespace troupe::kernels
