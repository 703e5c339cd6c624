#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

// p is `patch_size`. Errors (all): Errc::shape_mismatch (also for a side that
// is no multiple of p), Errc::invalid_argument.

/// Cuts images into rows of patch pixels, for one linear layer:
/// x [B, C, H, W] f32 → out [B, (H/p)·(W/p), C·p·p] f32 or bf16 (on a GPU also
/// f16). The order within a row is (channel, patch row, patch column).
void patchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
              Tensor& out);

/// Puts tokens together to images: x [B, (H/p)·(W/p), p·p·C] f32 → out
/// [B, C, H, W] f32. The order within a token is (patch row, patch column,
/// channel): not that of `patchify`.
/// Source: diffusers models/transformers/dit_transformer_2d.py.
void unpatchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
                Tensor& out);

/// x [B, C, H, W] f32 → out [B, H, W, C] f32 or bf16 (on a GPU also f16).
void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out);
/// x [B, H, W, C] f32 or bf16 (on a GPU also f16) → out [B, C, H, W] f32.
void to_channels_first(ExecContext& ctx, const Tensor& x, Tensor& out);

}  // namespace troupe::kernels
