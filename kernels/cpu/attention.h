#pragma once

#include "kernels/attention.h"

namespace troupe::kernels::cpu {

/// As in kernels/attention.h; arguments are checked by the caller.
void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const AttentionMask& mask, Tensor& out);

[[nodiscard]] std::size_t attention_thread_bytes(std::int64_t keys,
                                                 std::int64_t head_dim,
                                                 DType dtype);

}  // namespace troupe::kernels::cpu
