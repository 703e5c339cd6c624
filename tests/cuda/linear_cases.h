#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/linear.h"
#include "tests/cuda/support.h"

namespace troupe::kernels {

inline constexpr DType kComputeTypes[] = {DType::f32, DType::bf16, DType::f16};

/// Values of a linear layer on the host, of one compute type.
struct LinearCase {
  Tensor x;       ///< [B, M, K] in the compute type
  Tensor weight;  ///< [N, K] in the compute type
  Tensor bias;    ///< [N] f32, or empty

  /// Results lie around 1.
  LinearCase(const Shape& x_shape, std::int64_t n, DType compute,
             std::uint64_t seed, bool has_bias = true)
      : x(random(x_shape, compute, seed)),
        weight(random({n, x_shape[2]}, compute, seed + 1,
                      1 / std::sqrt(static_cast<float>(x_shape[2])))),
        bias(has_bias ? random({n}, DType::f32, seed + 2) : Tensor()) {}

  [[nodiscard]] Shape out_shape() const {
    return {x.dim(0), x.dim(1), weight.dim(0)};
  }
  [[nodiscard]] PackedLinear packed(ExecContext& ctx) const {
    return {ctx, weight, bias, x.dtype()};
  }
  /// What the CPU makes of the same numbers, computed and stored in f32.
  [[nodiscard]] Tensor wanted(Activation activation) const {
    ExecContext cpu;
    const PackedLinear weights(cpu, weight, bias, DType::f32);
    Tensor out(out_shape(), DType::f32);
    linear(cpu, as(x, DType::f32), weights, activation, out);
    return out;
  }
};

/// The largest error of a result of `compute` stored as `to`, relative. Tensor
/// cores cut f32 partial sums off where other units round them.
[[nodiscard]] inline double tolerance_of_product(DType compute, DType to) {
  return to == DType::f32 && compute != DType::f32 ? 1e-4 : tolerance_of(to);
}

/// linear on ctx's GPU into a poisoned output.
[[nodiscard]] inline Tensor run_linear(ExecContext& ctx, const Tensor& x,
                                       const PackedLinear& packed,
                                       Activation activation, DType to) {
  Tensor out = poisoned(ctx, {x.dim(0), x.dim(1), packed.out_features()}, to);
  linear(ctx, upload(ctx, x), packed, activation, out);
  return download(ctx, out);
}

/// Items [0, count) of x, each again by itself, have the bytes of `all`.
inline void expect_items_alone(ExecContext& ctx, const Tensor& x,
                               const PackedLinear& packed,
                               Activation activation, const Tensor& all) {
  for (std::int64_t item = 0; item < x.dim(0); ++item) {
    const Tensor alone = run_linear(ctx, x.slice(item, item + 1), packed,
                                    activation, all.dtype());
    EXPECT_TRUE(bytes_equal(alone, all.slice(item, item + 1)))
        << "item " << item << " of " << to_string(all.shape());
  }
}

}  // namespace troupe::kernels
