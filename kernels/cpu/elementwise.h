#pragma once

#include "kernels/elementwise.h"

namespace troupe::kernels::cpu {

/// As in kernels/elementwise.h; arguments are checked by the caller.
void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x);
void add(ExecContext& ctx, const Tensor& y, Tensor& x);
void convert(ExecContext& ctx, const Tensor& x, Tensor& out);
void combine(std::span<const Term> terms, Tensor& out);
void clamp(float low, float high, Tensor& x);
[[nodiscard]] double sum_squared_difference(const Tensor& a, const Tensor& b);
[[nodiscard]] double sum_squares(const Tensor& a);
[[nodiscard]] bool all_finite(const Tensor& x);

}  // namespace troupe::kernels::cpu
