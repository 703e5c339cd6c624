#pragma once

#include <cstdint>
#include <optional>

#include "kernels/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// out = layer_norm(x) · (1 + scale) + shift; no learned affine part.
///
/// Shapes: x [B, N, D] f32; out [B, N, D] f32 or bf16 (on a GPU also f16);
///         modulation [B, W] f32, of which shift and scale are D columns each
///         from `shift_column` and `scale_column` on.
/// Source: Peebles & Xie 2023, arXiv:2212.09748 (adaLN).
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
void layer_norm_modulate(ExecContext& ctx, const Tensor& x,
                         const Tensor& modulation, std::int64_t shift_column,
                         std::int64_t scale_column, float eps, Tensor& out);

/// out = layer_norm(x) · weight + bias over the last axis. With equal numbers
/// it has the bytes of layer_norm_modulate with a scale of weight − 1, if 1 +
/// scale is exact.
///
/// Shapes: x [..., D] f32; weight and bias [D] f32; out like x, f32 or bf16 (on
///         a GPU also f16). out may alias x.
/// Source: Ba et al. 2016, arXiv:1607.06450.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
void layer_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, float eps, Tensor& out);

/// x += gate · y, or without `gate_column` x += y; then out = layer_norm(x) ·
/// (1 + scale) + shift. Has the bits of add_gated, or of add, followed by
/// layer_norm_modulate on the same device, but a GPU reads and writes x only
/// once.
///
/// Shapes: x [B, N, D] f32; y [B, N, D] and out [B, N, D] f32 or bf16 (on a GPU
///         also f16); modulation [B, W] f32, of which gate, shift and scale are
///         D columns each from `gate_column`, `shift_column` and
///         `scale_column` on. out aliases neither x nor y.
/// Source: Peebles & Xie 2023, arXiv:2212.09748 (adaLN-zero).
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
void add_layer_norm_modulate(ExecContext& ctx, const Tensor& modulation,
                             std::optional<std::int64_t> gate_column,
                             const Tensor& y, std::int64_t shift_column,
                             std::int64_t scale_column, float eps, Tensor& x,
                             Tensor& out);

/// out = x · weight / sqrt(mean(x²) + eps) over the last axis.
///
/// Shapes: x [..., D] f32 or bf16 (on a GPU also f16), weight [D] f32; out of
///         x's shape and any of these types. out may alias x if their dtypes
///         agree.
/// Source: Zhang & Sennrich 2019, arXiv:1910.07467.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
void rms_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
              float eps, Tensor& out);

/// out = activation(group_norm(x) · weight + bias). Statistics are per (item,
/// group), over all pixels in a fixed order.
///
/// Shapes: x [B, H, W, C] f32 or bf16 (on a GPU also f16), channels last;
///         weight and bias [C] f32; out like x. out may alias x. C must be a
///         multiple of num_groups.
/// Source: Wu & He 2018, arXiv:1803.08494.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
void group_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, std::int64_t num_groups, float eps,
                Activation activation, Tensor& out);

/// The two halves of group_norm for an image whose pixels are divided among
/// ranks (row_blocks.h). Together they have the bytes of group_norm.
///
/// Sums and sums of squares of each group, for each shard_block(pixels) of the
/// n pixels here. Their image has so many `pixels`.
/// Shapes: x [n, C], pixels of the image from the begin of such a block on;
///         moments [⌈n / block⌉, group_moments_width] u8.
/// Errors: as group_norm.
void group_moments(ExecContext& ctx, const Tensor& x, std::int64_t pixels,
                   std::int64_t num_groups, Tensor& moments);
[[nodiscard]] std::int64_t group_moments_width(const ExecContext& ctx,
                                               std::int64_t pixels,
                                               std::int64_t num_groups);
/// Shapes: x [n, C], any pixels of an image of so many `pixels`; moments: of
///         all of them; out like x, which it may alias.
void group_normalise(ExecContext& ctx, const Tensor& x, const Tensor& moments,
                     std::int64_t pixels, const Tensor& weight,
                     const Tensor& bias, std::int64_t num_groups, float eps,
                     Activation activation, Tensor& out);

}  // namespace troupe::kernels
