#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/core/tensor.h"
#include "kernels/cuda/backend.cuh"

// What the library cannot do in the epilogue of a product. Each is one pass.

namespace troupe::kernels::cuda {

/// out = activation(product + bias). product f32 [..., N]; bias f32 [N] or
/// empty; out f32, bf16 or f16 of product's shape, may be product itself.
void activate_product(Backend& backend, const Tensor& product,
                      const Tensor& bias, Activation activation, Tensor& out);

/// residual += gate · (product + bias), each operation rounded, as `add_gated`.
/// product, residual f32 [B, M, N]; bias f32 [N] or empty; gate: N columns of
/// `modulation` [B, W] f32 from `gate_column` on, or 1 if that is empty.
void add_product(Backend& backend, const Tensor& product, const Tensor& bias,
                 const Tensor& modulation, std::int64_t gate_column,
                 Tensor& residual);

}  // namespace troupe::kernels::cuda
