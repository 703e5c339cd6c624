#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Cuts images into rows of patch pixels, ready for one linear layer.
/// x [B, C, H, W] f32 → out [B, (H/p)·(W/p), C·p·p] f32 or bf16 (on a GPU f16
/// too); inside a row the order is (channel, patch row, patch column). Errors:
/// Errc::shape_mismatch when a side is not a multiple of p.
void patchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
              Tensor& out);

/// The way back from tokens: x [B, (H/p)·(W/p), p·p·C] f32 with order (patch
/// row, patch column, channel) → out [B, C, H, W] f32. Source: diffusers
/// models/transformers/dit_transformer_2d.py (channel last).
void unpatchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
                Tensor& out);

/// [B, C, H, W] f32 → [B, H, W, C] f32 or bf16 (on a GPU f16 too), and back to
/// f32.
void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out);
void to_channels_first(ExecContext& ctx, const Tensor& x, Tensor& out);

}  // namespace troupe::kernels
