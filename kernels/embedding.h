#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Sinusoidal timestep embedding, [cos | sin] order (flip_sin_to_cos).
///
/// f_i = exp(−ln(max_period) · i / (half − shift)), i < half = dim / 2, in
/// torch's float32 order of operations; out [B, dim] f32 on ctx's device, made
/// on the CPU. An odd dim leaves the last column 0.
/// Source: diffusers models/embeddings.py, get_timestep_embedding.
void timestep_embedding(ExecContext& ctx, std::span<const double> timesteps,
                        double shift, double max_period, Tensor& out);

/// Two-dimensional sine-cosine position table [height · width, dim] f32 on the
/// host. The first dim / 2 columns are for the x coordinate (column of the
/// grid), the others for y (row). Coordinates are scaled by
/// base / extent / interpolation. dim must be a multiple of 4.
/// Source: diffusers models/embeddings.py, get_2d_sincos_pos_embed (float64).
[[nodiscard]] Tensor sincos_2d(std::int64_t dim, std::int64_t height,
                               std::int64_t width, std::int64_t base,
                               double interpolation);

}  // namespace troupe::kernels
