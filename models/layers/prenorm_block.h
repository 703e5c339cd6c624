#pragma once

#include <cstdint>

#include "kernels/linear.h"
#include "models/layers/feed_forward.h"
#include "models/layers/norm_weights.h"
#include "models/network/pass.h"

// What transformer blocks with learned norms share: those of U-ViT and of a
// UNet. B rows, N tokens, D width. x is the sum of all branches so far, [B, N,
// D] f32, and no residual stream of the pass. Buffers are of the workspace.

namespace troupe::models {

struct PrenormAttention {
  NormWeights norm;
  kernels::PackedLinear qkv;  ///< D → 3D: queries, keys, values
  kernels::PackedLinear out;  ///< D → D
};

struct PrenormMlp {
  NormWeights norm;
  kernels::PackedLinear up;    ///< D → 4D, gated: 8D
  kernels::PackedLinear down;  ///< 4D → D
};

/// x += Attention(norm(x)).
void add_attention(Pass& pass, const PrenormAttention& layers,
                   std::int64_t num_heads, float eps, Tensor& x);
/// x += MLP(norm(x)).
void add_mlp(Pass& pass, const PrenormMlp& layers, const FeedForward& kind,
             float eps, Tensor& x);
/// What the blocks behind a long skip begin with: out [B, N, D] f32 of x and
/// the skip side by side. layer: 2D → D. out may be x.
void join_long_skip(Pass& pass, const kernels::PackedLinear& layer,
                    const Tensor& x, const Tensor& skip, Tensor& out);

}  // namespace troupe::models
