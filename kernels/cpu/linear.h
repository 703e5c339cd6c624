#pragma once

#include <string>
#include <variant>

#include "kernels/cpu/linear_call.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/tiled_matrix.h"

namespace troupe::kernels::cpu {

/// Weights for the library, or for the tile unit where that is faster.
using LinearWeights = std::variant<PackedMatrix, TiledMatrix>;

/// weight: [N, K]; bias: [N] or empty.
[[nodiscard]] LinearWeights pack_linear(ExecContext& ctx, const Tensor& weight,
                                        const Tensor& bias, DType compute);

/// x [B, M, K], out [B, M, N]; arguments are checked by the caller.
void linear(ExecContext& ctx, const Tensor& x, const LinearWeights& weights,
            const LinearCall& call, Tensor& out);

/// As kernels::supports.
[[nodiscard]] bool can_multiply(DType compute);
[[nodiscard]] std::string matrix_library_version();

}  // namespace troupe::kernels::cpu
