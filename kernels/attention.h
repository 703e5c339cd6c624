#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels {

/// The heads of an operand inside a wider matrix: element (b, n, h, d) is
/// `base[b, n, column + h * head_dim + d]`. So attention can read q, k and v
/// from the output of one fused projection.
struct HeadsView {
  Tensor base;              ///< [B, N, W]
  std::int64_t column = 0;  ///< first column of head 0
};

/// out = softmax(q·kᵀ / √head_dim) · v, without mask, for every item and head.
///
/// Shapes: q [B, Nq, heads·head_dim], k and v [B, Nk, …] as views; out
///         [B, Nq, heads·head_dim]. dtype f32 or bf16 (on a GPU also f16), the
///         same for all; logits and softmax are f32.
/// Bits:   an item's bits do not depend on the batch. CPU: two products per
///         (item, head, block of query rows); see row_blocks.h. GPU: see
///         DeviceOptions::batch_invariant.
/// Shards: q may hold some of the rows of larger items, and all operands some
///         of their heads (`whole`). k and v have all keys, in the whole's
///         order.
/// Memory: CPU: workspace for copies of q, k and v; per thread the logits of
///         one block (256 rows, down to 64 as the keys grow). GPU: none with
///         flash attention. For f32, or where head_dim, a column or a row width
///         is no multiple of 8: workspace for the logits of one block of rows
///         (at most 64 MiB, or one row).
/// Errors: Errc::shape_mismatch, Errc::invalid_argument; Errc::unsupported for
///         a shard on a GPU where flash attention cannot serve the whole, or
///         computes a shard's rows or heads with other bits.
/// Thread: any, one ctx per thread.
/// Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1.
void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, Tensor& out, const WholeItem& whole = {});

}  // namespace troupe::kernels
