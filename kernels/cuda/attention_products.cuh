#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/core/context.h"

namespace troupe::kernels::cuda {

/// Attention as two products of cuBLASLt and a softmax in f32, over blocks of
/// query rows. Used where cuDNN has no flash attention: for f32, and for heads
/// that it cannot read 16 bytes at a time. f32, bf16 or f16; out is not empty.
///
/// Bits:   two products per item and block of rows, for all heads at once. The
///         blocks depend on the numbers of tokens and heads alone.
/// Memory: workspace: at most 64 MiB of logits (or those of one row), half as
///         much again for 16-bit types, and 8 MiB for the library.
/// Errors: Errc::unsupported when the library has no algorithm.
void attend_by_products(ExecContext& ctx, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v,
                        std::int64_t num_heads, std::int64_t head_dim,
                        Tensor& out);

/// The weights of attention: weights [rows, keys] = softmax(logits) per row.
/// logits are f32; weights may be logits itself if they are f32 too.
void attention_weights(ExecContext& ctx, const Tensor& logits, Tensor& weights);

}  // namespace troupe::kernels::cuda
