#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/core/context.h"

namespace troupe::kernels::cuda {

/// Attention as two products of cuBLASLt and a softmax in f32, over blocks of
/// query rows. Used where cuDNN has no flash attention: for f32, for heads that
/// it cannot read 16 bytes at a time, and for a mask with a bias or `causal`
/// (every key counts: `mask.key_lengths` is empty). The bias may have more
/// columns than there are keys. f32, bf16 or f16; out is not empty.
///
/// whole: sizes of the item that q has some rows of, from `first_row` on; with
///         all heads. A shard has no bias and is not `causal`.
/// Bits:   two products per item and block of rows, for all heads at once. The
///         blocks depend on the numbers of tokens and heads alone. A shard runs
///         the whole's calls for the blocks that it has rows of, so its rows
///         have the whole's bits whatever the library does.
/// Memory: workspace: at most 64 MiB of logits (or those of one row), half as
///         much again for 16-bit types, and 8 MiB for the library. A shard: one
///         block of q and out, and k and v where the whole's rows have another
///         width.
/// Errors: Errc::unsupported when the library has no algorithm.
void attend_by_products(ExecContext& ctx, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v,
                        std::int64_t num_heads, std::int64_t head_dim,
                        const WholeItem& whole, const AttentionMask& mask,
                        Tensor& out);

/// The scale of the logits.
[[nodiscard]] float scale_of(const AttentionMask& mask, std::int64_t head_dim);

/// What a mask does to the logits of some query rows, head after head.
struct LogitsBlock {
  std::int64_t rows = 0;        ///< of each head
  std::int64_t first_row = 0;   ///< in the item
  const float* bias = nullptr;  ///< [heads, bias_rows, bias_row]; null: none
  std::int64_t bias_rows = 0;
  std::int64_t bias_row = 0;
  bool causal = false;
};

/// The weights of attention: weights [heads · rows, keys] = softmax(logits) per
/// row, with the mask of `block`. logits are scaled, f32; weights may be logits
/// itself if they are f32 too.
void attention_weights(ExecContext& ctx, const Tensor& logits,
                       const LogitsBlock& block, Tensor& weights);

}  // namespace troupe::kernels::cuda
