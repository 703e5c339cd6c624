#pragma once

#include <cstdint>
#include <span>

#include "kernels/activation.h"
#include "kernels/linear.h"
#include "models/network/network.h"

namespace troupe::models {

/// How a network embeds a timestep: sinusoids, then two layers.
/// Source: diffusers models/embeddings.py, Timesteps and TimestepEmbedding.
struct TimestepEmbedding {
  std::int64_t frequencies = 256;
  double shift = 0;  ///< downscale_freq_shift
  kernels::Activation activation = kernels::Activation::silu;
};

/// The embeddings [R, 1, E] f32 of the rows' timesteps, in the workspace.
[[nodiscard]] Tensor embed_timesteps(ExecContext& ctx,
                                     std::span<const TableRow> rows,
                                     const TimestepEmbedding& how,
                                     const kernels::PackedLinear& first,
                                     const kernels::PackedLinear& second);

/// Copies made [R, 1, K] to columns [column, column + K) of each row's target.
void put_columns(ExecContext& ctx, const Tensor& made,
                 std::span<const TableRow> rows, std::int64_t column);

}  // namespace troupe::models
