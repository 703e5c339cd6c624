#pragma once

#include "kernels/cpu/packed_matrix.h"
#include "kernels/linear.h"

namespace troupe::kernels {

struct PackedLinear::Impl {
  cpu::PackedMatrix matrix;
};

namespace cpu {

/// out = activation(x · weightᵀ + bias), or with `gate` (first of N columns of
/// item 0, items `gate_stride` apart): out += gate · (…).
struct LinearCall {
  Activation activation = Activation::none;
  const float* gate = nullptr;
  std::int64_t gate_stride = 0;
};

/// Arguments are checked by the caller. x [B, M, K], out [B, M, N].
void linear(ExecContext& ctx, const Tensor& x, const PackedMatrix& matrix,
            const LinearCall& call, Tensor& out);

[[nodiscard]] bool can_multiply(DType compute);
[[nodiscard]] const char* isa_name();

}  // namespace cpu
}  // namespace troupe::kernels
