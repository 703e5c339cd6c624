#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/linear.h"
#include "kernels/residual_stream.h"
#include "models/feed_forward.h"

// The two branches that transformer blocks with adaptive norms share: those of
// DiT and of PixArt. B rows, N tokens, D width.

namespace troupe::models {

/// The sizes of such a block.
struct AdalnShape {
  std::int64_t num_heads = 1;
  std::int64_t head_dim = 4;
  FeedForward feed_forward;

  [[nodiscard]] std::int64_t width() const noexcept {
    return num_heads * head_dim;
  }
  [[nodiscard]] std::int64_t mlp_width() const noexcept { return 4 * width(); }
  /// Out features of the MLP's first layer.
  [[nodiscard]] std::int64_t mlp_up_width() const noexcept {
    return (feed_forward.gated ? 2 : 1) * mlp_width();
  }
  /// Elements of the four matrices.
  [[nodiscard]] std::int64_t product_parameters() const noexcept {
    return width() * (4 * width() + mlp_up_width() + mlp_width());
  }
  /// Bytes of a token's activations while blocks run: the residual stream and
  /// BlockBuffers; on a GPU also f32 products in front of what rounds them.
  [[nodiscard]] std::int64_t bytes_per_token(DType compute,
                                             DeviceKind kind) const noexcept;
};

struct AdalnLayers {
  kernels::PackedLinear qkv;       ///< D → 3D: queries, keys, values
  kernels::PackedLinear out;       ///< D → D
  kernels::PackedLinear mlp_up;    ///< D → 4D, gated: 8D
  kernels::PackedLinear mlp_down;  ///< 4D → D
};

/// Buffers of one forward pass, taken from the workspace.
struct BlockBuffers {
  BlockBuffers(Workspace& workspace, const AdalnShape& shape, DType compute,
               std::int64_t rows, std::int64_t tokens);

  /// Third `index` of the memory of qkv, as [B, N, D].
  [[nodiscard]] Tensor third(std::int64_t index) const;

  Tensor normed;     ///< [B, N, D], later the attended values
  Tensor qkv;        ///< [B, N, 3D]
  Tensor mlp;        ///< [B, N, 4D]
  Tensor gated_mlp;  ///< [B, N, 8D] of a gated MLP
};

/// stream += gate · Attention(norm(stream)). `column`: where shift, scale and
/// gate (D columns each) begin in the stream's modulation.
void add_self_attention(ExecContext& ctx, const AdalnShape& shape,
                        const AdalnLayers& layers, std::int64_t column,
                        float eps, BlockBuffers& buffers,
                        kernels::ResidualStream& stream);
/// stream += gate · MLP(norm(stream)).
void add_feed_forward(ExecContext& ctx, const AdalnShape& shape,
                      const AdalnLayers& layers, std::int64_t column, float eps,
                      BlockBuffers& buffers, kernels::ResidualStream& stream);

}  // namespace troupe::models
