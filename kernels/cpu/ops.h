#pragma once

#include <string>
#include <variant>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/cpu/linear_call.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/tiled_matrix.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "kernels/resize.h"
#include "kernels/rope.h"

// The operations on the CPU, by the files that have them. The public headers
// say what they do; here arguments are checked already.

namespace troupe::kernels::cpu {

// activation.cpp
void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out);
void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out);

// attention.cpp
void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const AttentionMask& mask,
               HeadsView& out);

[[nodiscard]] std::size_t attention_thread_bytes(std::int64_t keys,
                                                 std::int64_t head_dim,
                                                 DType dtype,
                                                 std::int64_t key_blocks);

// conv2d.cpp
/// Filters and bias as the matrix of a product over patches.
struct ConvWeights {
  PackedMatrix matrix;  ///< [O, kh·kw·I]
  std::int64_t in_channels;
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  std::int64_t stride;
  Padding padding;
};

/// [O, I, kh, kw] f32, bf16 or f16 → [O, kh·kw·I] of the same type.
[[nodiscard]] Tensor channels_last_weights(const Tensor& weight);

void conv2d(ExecContext& ctx, const Tensor& x, const ImagePart& from,
            const ConvWeights& conv, Tensor& out, const ImagePart& to);
[[nodiscard]] std::size_t conv2d_thread_bytes(std::int64_t columns,
                                              DType compute);
void upsample_nearest2x(ExecContext& ctx, const Tensor& x,
                        const ImagePart& from, Tensor& out,
                        const ImagePart& to);

void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out);

// elementwise.cpp
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

[[nodiscard]] double sum_squared_difference(const Tensor& a, const Tensor& b);
[[nodiscard]] double sum_squares(const Tensor& a);
[[nodiscard]] bool all_finite(const Tensor& x);
void add_carry(const Tensor& step, float carry, const Tensor& x_new,
               const Tensor& x_old, Tensor& out);

// linear.cpp
/// Weights for the library, or for the tile unit where that is faster.
using LinearWeights = std::variant<PackedMatrix, TiledMatrix>;

/// weight: [N, K]; bias: [N] or empty.
[[nodiscard]] LinearWeights pack_linear(ExecContext& ctx, const Tensor& weight,
                                        const Tensor& bias, DType compute);

/// x [B, M, K], out [B, M, N].
void linear(ExecContext& ctx, const Tensor& x, const LinearWeights& weights,
            const LinearCall& call, Tensor& out);

/// As kernels::supports.
[[nodiscard]] bool can_multiply(DType compute);
[[nodiscard]] std::string matrix_library_version();

// norm.cpp
void layer_norm_modulate(ExecContext& ctx, const Tensor& x,
                         const Tensor& modulation, std::int64_t shift_column,
                         std::int64_t scale_column, float eps, Tensor& out);
void layer_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, float eps, Tensor& out);
void rms_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
              float eps, Tensor& out);
void group_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, std::int64_t num_groups, float eps,
                Activation activation, Tensor& out);
void group_moments(ExecContext& ctx, const Tensor& x, std::int64_t num_groups,
                   Tensor& moments);
void group_normalise(ExecContext& ctx, const Tensor& x, const Tensor& moments,
                     std::int64_t pixels, const Tensor& weight,
                     const Tensor& bias, std::int64_t num_groups, float eps,
                     Activation activation, Tensor& out);
/// Bytes of the moments of one block of pixels.
[[nodiscard]] std::int64_t group_moments_width(std::int64_t num_groups);
/// What it takes of the workspace for x [B, H, W, C].
[[nodiscard]] std::int64_t group_norm_bytes(const Shape& x,
                                            std::int64_t num_groups);

// patchify.cpp
void patchify(const Tensor& x, std::int64_t patch_size, Tensor& out);
void unpatchify(const Tensor& x, std::int64_t patch_size, Tensor& out);
void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out);
void to_channels_first(ExecContext& ctx, const Tensor& x, Tensor& out);

// resize.cpp
void resize_and_crop(ExecContext& ctx, const Tensor& x, Tensor& out);

// rope.cpp
/// Only `cosines` and `sines` may be empty.
void rms_norm_rope(ExecContext& ctx, const Tensor& weight,
                   const Tensor& cosines, const Tensor& sines,
                   std::int64_t num_heads, std::int64_t head_dim, float eps,
                   HeadsView& x);

}  // namespace troupe::kernels::cpu
