#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/core/context.h"

namespace troupe::kernels::cuda {

/// Attention as two products of cuBLASLt and a softmax in f32, over blocks of
/// query rows: what cuDNN has no flash attention for (f32, and heads it cannot
/// read 16 bytes at a time). f32, bf16 or f16; out is not empty.
///
/// Bits:   one pair of products per item and block of rows, all heads at once;
///         the blocks follow from the token and head counts alone.
/// Memory: workspace, at most 64 MiB of logits or those of one row, half as
///         much again for 16-bit types, and the library's 8 MiB.
/// Errors: Errc::unsupported when the library has no algorithm.
void attend_by_products(ExecContext& ctx, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v,
                        std::int64_t num_heads, std::int64_t head_dim,
                        Tensor& out);

/// Weights of attention: powers [rows, keys] = softmax(logits) per row, of
/// f32 logits; may be the logits' own memory when it is f32.
void attention_weights(ExecContext& ctx, const Tensor& logits, Tensor& powers);

}  // namespace troupe::kernels::cuda
