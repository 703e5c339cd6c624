#pragma once

#include <cstdint>

#include "kernels/linear.h"
#include "models/files/json.h"
#include "models/layers/feed_forward.h"
#include "models/network/layer_reader.h"
#include "models/network/pass.h"

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

  /// Checks the width that config.json asks for. Errors: Errc::unsupported.
  void check(const Json& json) const;
};

struct AdalnLayers {
  kernels::PackedLinear qkv;       ///< D → 3D: queries, keys, values
  kernels::PackedLinear out;       ///< D → D
  kernels::PackedLinear mlp_up;    ///< D → 4D, gated: 8D
  kernels::PackedLinear mlp_down;  ///< 4D → D

  /// "NAMEattn1" without the MLP. `bias`: of queries, keys and values.
  void read_attention(LayerReader& reader, const std::string& name,
                      const AdalnShape& shape, bool bias);
  /// "NAMEff".
  void read_feed_forward(LayerReader& reader, const std::string& name,
                         const AdalnShape& shape);
};

/// Columns of a block's modulation: shift, scale and gate of attention, then of
/// the MLP.
inline constexpr int kAdalnColumns = 6;

/// Buffers of a block, taken from the workspace.
struct BlockBuffers {
  /// For the state's one stream [B, N, D].
  BlockBuffers(Pass& pass, const AdalnShape& shape, const Tensor& x);

  /// Quarter `index` of the memory of the MLP, as [B, N, D].
  [[nodiscard]] Tensor quarter(std::int64_t index) const;

  Tensor normed;     ///< [B, N, D], later the attended values
  Tensor qkv;        ///< [B, N, 3D]
  Tensor mlp;        ///< [B, N, 4D]
  Tensor gated_mlp;  ///< [B, N, 8D] of a gated MLP
};

/// x += gate · Attention(norm(x)), x the pass's residual stream. mod: of the
/// block.
void add_self_attention(Pass& pass, const AdalnShape& shape,
                        const AdalnLayers& layers, const Columns& mod,
                        float eps, BlockBuffers& buffers);
/// x += gate · MLP(norm(x)).
void add_feed_forward(Pass& pass, const AdalnShape& shape,
                      const AdalnLayers& layers, const Columns& mod, float eps,
                      BlockBuffers& buffers);

}  // namespace troupe::models
