#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/linear_call.h"

namespace troupe::kernels::cpu {

/// Weights [N, K] packed for the tile unit, in groups of 32 columns of the
/// product x · weightᵀ. Immutable once made.
class TiledMatrix {
 public:
  /// Whether weights can be packed so: bf16, N and K multiples of 32.
  [[nodiscard]] static bool fits(std::int64_t n, std::int64_t k, DType compute);

  /// weight: [N, K] f32, bf16 or f16 that `fits`; bias: [N] or empty.
  TiledMatrix(ExecContext& ctx, const Tensor& weight, const Tensor& bias);

  [[nodiscard]] std::int64_t rows() const noexcept { return n_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return k_; }
  [[nodiscard]] DType compute() const noexcept { return DType::bf16; }
  [[nodiscard]] std::size_t num_bytes() const noexcept {
    return tiles_.num_bytes() + bias_.num_bytes();
  }
  /// The packed columns of group `index`, from depth `k` on.
  [[nodiscard]] const std::byte* group(std::int64_t index,
                                       std::int64_t k) const {
    return tiles_.bytes().data() + (index * k_ + k) * kTileBlock * 2;
  }
  /// Null without bias.
  [[nodiscard]] const float* bias() const {
    return bias_.empty() ? nullptr : bias_.data<float>();
  }

 private:
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  Tensor tiles_;  // u8
  Tensor bias_;
};

/// As cpu::linear; arguments are checked by the caller.
void tiled_linear(ExecContext& ctx, const Tensor& x, const TiledMatrix& matrix,
                  const LinearCall& call, Tensor& out);

}  // namespace troupe::kernels::cpu
