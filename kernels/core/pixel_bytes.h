#pragma once

#include "kernels/core/tensor.h"

namespace troupe {

/// Pixels of the host, f32 in [−1, 1], as bytes of the same shape:
/// clamp(x/2 + 1/2, 0, 1)·255, rounded half to even as numpy does it.
/// Errors: Errc::non_finite for NaN and infinities. Thread: any.
[[nodiscard]] Tensor pixel_bytes(const Tensor& pixels);

}  // namespace troupe
