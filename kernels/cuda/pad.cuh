#pragma once

#include "kernels/conv2d.h"

namespace troupe::kernels::cuda {

/// Queues a copy of images x [B, H, W, C], of any type, with zeros around each:
/// [B, top + H + bottom, left + W + right, C] in the workspace.
/// Errors: Errc::device_full.
[[nodiscard]] Tensor padded_copy(ExecContext& ctx, const Tensor& x,
                                 const Padding& padding);

}  // namespace troupe::kernels::cuda
