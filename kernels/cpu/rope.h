#pragma once

#include "kernels/rope.h"

namespace troupe::kernels::cpu {

/// As in kernels/rope.h; arguments are checked by the caller. Only `cosines`
/// and `sines` may be empty.
void rms_norm_rope(ExecContext& ctx, const Tensor& weight,
                   const Tensor& cosines, const Tensor& sines,
                   std::int64_t num_heads, std::int64_t head_dim, float eps,
                   HeadsView& x);

}  // namespace troupe::kernels::cpu
