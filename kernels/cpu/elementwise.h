#pragma once

#include "kernels/elementwise.h"

namespace troupe::kernels::cpu {

/// As in kernels/elementwise.h; arguments are checked by the caller.
void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x);
void add(ExecContext& ctx, const Tensor& y, Tensor& x);
void add_channels(ExecContext& ctx, const Tensor& vectors, std::int64_t column,
                  Tensor& x);
void convert(ExecContext& ctx, const Tensor& x, Tensor& out);
void combine(std::span<const Term> terms, Tensor& out);
void clamp(float low, float high, Tensor& x);
/// Guides the first `num_guided` elements (not items).
void guide(const Tensor& cond, const Tensor& uncond, float scale,
           std::int64_t num_guided, Tensor& out);
void rescale_deviation(const Tensor& like, double share, Tensor& x);
void scale_by_learned_variance(const Tensor& variance, bool is_range, float low,
                               float high, Tensor& noise);

/// As in kernels/reduction.h.
[[nodiscard]] double sum_squared_difference(const Tensor& a, const Tensor& b);
[[nodiscard]] double sum_squares(const Tensor& a);
[[nodiscard]] bool all_finite(const Tensor& x);
void add_carry(const Tensor& step, float carry, const Tensor& x_new,
               const Tensor& x_old, Tensor& out);

}  // namespace troupe::kernels::cpu
