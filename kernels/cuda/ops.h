#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/elementwise.h"

// The operations on a GPU. The public headers say what they do; here arguments
// are checked already, and all operands are on ctx's device. They queue work
// and do not wait. In a build without CUDA each throws Errc::unsupported.

// Ends the declaration of each operation. In no_cuda.cpp it is the body of the
// stub, so a build without CUDA does not link if it is forgotten.
#ifndef TROUPE_OP
#define TROUPE_OP
#endif

namespace troupe::kernels::cuda {

// activation.cu
void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out) TROUPE_OP;

// bias_activation.cu
void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out) TROUPE_OP;

// attention.cpp (cuDNN)
void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const WholeItem& whole,
               const AttentionMask& mask, const HeadsView& out) TROUPE_OP;

// linear.cpp (cuBLASLt)

/// Weights [N, K] and bias [N] in device memory. Complete when the context that
/// packed them has synchronised.
struct LinearWeights {
  Tensor weight;       ///< [N, K] in the compute type
  Tensor bias;         ///< [N] f32, or empty
  Tensor narrow_bias;  ///< [N] in the compute type (`bias` itself if f32)
};
/// True when products of `compute` run on the GPU of ctx.
[[nodiscard]] bool can_multiply(ExecContext& ctx, DType compute) TROUPE_OP;
/// `weight` and `bias` are on the host, f32, bf16 or f16.
[[nodiscard]] LinearWeights pack_linear(ExecContext& ctx, const Tensor& weight,
                                        const Tensor& bias,
                                        DType compute) TROUPE_OP;
void linear(ExecContext& ctx, const Tensor& x, const LinearWeights& weights,
            Activation activation, std::int64_t whole_rows,
            Tensor& out) TROUPE_OP;
/// linear_add_gated, or linear_add if `modulation` is empty.
void linear_add(ExecContext& ctx, const Tensor& x, const LinearWeights& weights,
                const Tensor& modulation, std::int64_t gate_column,
                std::int64_t whole_rows, Tensor& residual) TROUPE_OP;

// offload.cpp

/// A tensor u8 [bytes] in pinned memory of the host.
[[nodiscard]] Tensor pinned_memory(ExecContext& ctx,
                                   std::int64_t bytes) TROUPE_OP;
/// As OffloadedLayers::fetch; `room` is the size of the largest group in bytes.
void fetch_weights(ExecContext& ctx, const Tensor& group, const Tensor& next,
                   std::size_t room) TROUPE_OP;
/// The copy on the device of a matrix in pinned memory. Errors: Errc::internal
/// when the last group that was fetched is another.
[[nodiscard]] Tensor fetched_weight(ExecContext& ctx,
                                    const Tensor& pinned) TROUPE_OP;

// conv2d.cpp (cuDNN)

/// Filters [O, kh, kw, I] (channels last) and bias [O] in device memory.
struct ConvWeights {
  Tensor filters;
  Tensor bias;  ///< [O] f32, or empty
  std::int64_t stride = 1;
  Padding padding;
};
/// `weight` [O, I, kh, kw] and `bias` are on the host.
[[nodiscard]] ConvWeights pack_conv2d(ExecContext& ctx, const Tensor& weight,
                                      const Tensor& bias, std::int64_t stride,
                                      const Padding& padding,
                                      DType compute) TROUPE_OP;
void conv2d(ExecContext& ctx, const Tensor& x, const ConvWeights& weights,
            Tensor& out) TROUPE_OP;
void conv2d_part(ExecContext& ctx, const Tensor& x, const ImagePart& from,
                 const ConvWeights& weights, Tensor& out,
                 const ImagePart& to) TROUPE_OP;

// resample.cu
void upsample_nearest2x(ExecContext& ctx, const Tensor& x,
                        Tensor& out) TROUPE_OP;
void upsample_part(ExecContext& ctx, const Tensor& x, const ImagePart& from,
                   Tensor& out, const ImagePart& to) TROUPE_OP;
void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out) TROUPE_OP;

// norm.cu
void layer_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, float eps, Tensor& out) TROUPE_OP;
void layer_norm_modulate(ExecContext& ctx, const Tensor& x,
                         const Tensor& modulation, std::int64_t shift_column,
                         std::int64_t scale_column, float eps,
                         Tensor& out) TROUPE_OP;
void add_layer_norm_modulate(ExecContext& ctx, const Tensor& modulation,
                             std::optional<std::int64_t> gate_column,
                             const Tensor& y, std::int64_t shift_column,
                             std::int64_t scale_column, float eps, Tensor& x,
                             Tensor& out) TROUPE_OP;
void rms_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
              float eps, Tensor& out) TROUPE_OP;

// group_norm.cu
void group_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, std::int64_t num_groups, float eps,
                Activation activation, Tensor& out) TROUPE_OP;
/// Partial sums are over shard_block(pixels, kGroupNormPart) pixels. Moments:
/// sum and sum of squares in double for each partial sum and group.
inline constexpr std::int64_t kGroupNormPart = 16;
void group_moments(ExecContext& ctx, const Tensor& x, std::int64_t pixels,
                   std::int64_t num_groups, Tensor& moments) TROUPE_OP;
void group_normalise(ExecContext& ctx, const Tensor& x, const Tensor& moments,
                     std::int64_t pixels, const Tensor& weight,
                     const Tensor& bias, std::int64_t num_groups, float eps,
                     Activation activation, Tensor& out) TROUPE_OP;

// rope.cu
void rms_norm_rope(ExecContext& ctx, const Tensor& weight,
                   const Tensor& cosines, const Tensor& sines,
                   std::int64_t num_heads, std::int64_t head_dim, float eps,
                   HeadsView& x) TROUPE_OP;

// elementwise.cu
void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x) TROUPE_OP;
void add(ExecContext& ctx, const Tensor& y, Tensor& x) TROUPE_OP;
void add_channels(ExecContext& ctx, const Tensor& vectors, std::int64_t column,
                  Tensor& x) TROUPE_OP;
void convert(ExecContext& ctx, const Tensor& x, Tensor& out) TROUPE_OP;

// solver.cu
void combine(ExecContext& ctx, std::span<const Term> terms,
             Tensor& out) TROUPE_OP;
void clamp(ExecContext& ctx, float low, float high, Tensor& x) TROUPE_OP;
void guide(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
           float scale, std::int64_t num_guided, Tensor& out) TROUPE_OP;
void rescale_deviation(ExecContext& ctx, const Tensor& like, double share,
                       Tensor& x) TROUPE_OP;
void scale_by_learned_variance(ExecContext& ctx, const Tensor& variance,
                               bool is_range, float low, float high,
                               Tensor& noise) TROUPE_OP;

// reduction.cu: each writes one double to values[index]; values is u8 [n, 8].
void sum_squared_difference(ExecContext& ctx, const Tensor& a, const Tensor& b,
                            Tensor& values, std::size_t index) TROUPE_OP;
void sum_squares(ExecContext& ctx, const Tensor& a, Tensor& values,
                 std::size_t index) TROUPE_OP;
void sum(ExecContext& ctx, const Tensor& a, Tensor& values,
         std::size_t index) TROUPE_OP;
void bytes_equal(ExecContext& ctx, const Tensor& a, const Tensor& b,
                 Tensor& values, std::size_t index) TROUPE_OP;
void all_finite(ExecContext& ctx, const Tensor& x, Tensor& values,
                std::size_t index) TROUPE_OP;

// carry.cu
void add_carry(ExecContext& ctx, const Tensor& step, float carry,
               const Tensor& x_new, const Tensor& x_old, Tensor& out) TROUPE_OP;

// rows.cu
void gather(ExecContext& ctx, std::span<const Tensor> rows,
            Tensor& out) TROUPE_OP;
void scatter(ExecContext& ctx, const Tensor& in,
             std::span<Tensor> rows) TROUPE_OP;

// patchify.cu
void patchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
              Tensor& out) TROUPE_OP;
void unpatchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
                Tensor& out) TROUPE_OP;

// layout.cu
void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out) TROUPE_OP;
void to_channels_first(ExecContext& ctx, const Tensor& x,
                       Tensor& out) TROUPE_OP;

}  // namespace troupe::kernels::cuda
