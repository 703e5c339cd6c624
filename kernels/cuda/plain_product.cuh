#pragma once

#include "kernels/core/tensor.h"
#include "kernels/cuda/backend.cuh"

namespace troupe::kernels::cuda {

/// out = x · weightᵀ, each element one f32 sum over ascending k. Takes any
/// shape but is slow: for shapes that the library has no algorithm for (sides
/// of one, for example). x [..., K] and weight [N, K] of one type, out [..., N]
/// f32.
void multiply_plainly(Backend& backend, const Tensor& x, const Tensor& weight,
                      Tensor& out);

}  // namespace troupe::kernels::cuda
