#pragma once

#include "kernels/conv2d.h"
#include "kernels/cpu/packed_matrix.h"

namespace troupe::kernels::cpu {

/// Filters and bias as the matrix of a product over patches.
struct ConvWeights {
  PackedMatrix matrix;  ///< [O, kh·kw·I]
  std::int64_t in_channels;
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  std::int64_t stride;
  std::int64_t padding;
};

/// [O, I, kh, kw] f32, bf16 or f16 → [O, kh·kw·I] of the same type.
[[nodiscard]] Tensor channels_last_weights(const Tensor& weight);

/// As in kernels/conv2d.h; arguments are checked by the caller.
void conv2d(ExecContext& ctx, const Tensor& x, const ConvWeights& conv,
            Tensor& out);
[[nodiscard]] std::size_t conv2d_thread_bytes(std::int64_t columns,
                                              DType compute);
void upsample_nearest2x(ExecContext& ctx, const Tensor& x, Tensor& out);

void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out);

}  // namespace troupe::kernels::cpu
