#include <algorithm>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels::cpu {
namespace {

constexpr std::int64_t kPieceTokens = 16;

/// A head's pairs (a, b) → (a·cos − b·sin, a·sin + b·cos).
void rotate(const float* cosines, const float* sines, std::int64_t pairs,
            float* head) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = a * cosines[i] - b * sines[i];
    head[2 * i + 1] = a * sines[i] + b * cosines[i];
  }
}

}  // namespace

void rms_norm_rope(ExecContext& ctx, const Tensor& weight,
                   const Tensor& cosines, const Tensor& sines,
                   std::int64_t num_heads, std::int64_t head_dim, float eps,
                   HeadsView& x) {
  const std::int64_t tokens = x.base.dim(0) * x.base.dim(1);
  const std::int64_t width = num_heads * head_dim;
  const std::int64_t normed = weight.dim(0);  // elements of one mean
  const auto bytes = static_cast<std::size_t>(width) * sizeof(float);
  const auto turn_token = [&](std::int64_t token, float* row) {
    const Target to = Target(x.base).at(token * x.base.dim(2) + x.column);
    // In f32 between the two steps: one rounding, as the header says.
    convert_row({to.data, to.dtype}, width, {row, DType::f32});
    for (std::int64_t i = 0; i < width; i += normed) {
      rms_norm_row({row + i, DType::f32}, weight.data<float>(), normed, eps,
                   {row + i, DType::f32});
    }
    if (!cosines.empty()) {
      const std::int64_t pairs = head_dim / 2;
      const std::int64_t angle = token % x.base.dim(1) * pairs;
      for (std::int64_t head = 0; head < num_heads; ++head) {
        rotate(cosines.data<float>() + angle, sines.data<float>() + angle,
               pairs, row + head * head_dim);
      }
    }
    convert_row({row, DType::f32}, width, to);
  };
  ctx.pool().run(
      (tokens + kPieceTokens - 1) / kPieceTokens,
      [&](std::int64_t piece, int thread) {
        auto* row = reinterpret_cast<float*>(ctx.scratch(thread, bytes));
        const std::int64_t end = std::min(tokens, (piece + 1) * kPieceTokens);
        for (std::int64_t t = piece * kPieceTokens; t < end; ++t) {
          turn_token(t, row);
        }
      });
}

}  // namespace troupe::kernels::cpu
