// Operations of text encoders, PixArt-Σ, UNets and decoders at their real
// sizes, one item each: what the benchmarks of the CPU (cpu/bench_kernels.cpp)
// and of GPUs (tests/probes/gpu_probe.cpp) time.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/conv2d.h"
#include "kernels/norm.h"

namespace troupe::kernels {

/// Attention over `length` of `keys` keys; the others are padding.
struct AttentionCase {
  const char* name;
  std::int64_t queries, keys, heads, head_dim, length;
  bool causal, has_bias;

  [[nodiscard]] std::int64_t width() const { return heads * head_dim; }
  /// Counts all `length` keys, also the keys that `causal` hides.
  [[nodiscard]] double flops() const {
    return 4.0 * static_cast<double>(queries * length * width());
  }
};

inline constexpr std::array kAttentionCases{
    AttentionCase{"CLIP-L, plain", 77, 77, 12, 64, 77, false, false},
    AttentionCase{"CLIP-L, causal", 77, 77, 12, 64, 77, true, false},
    AttentionCase{"T5-XXL, plain", 300, 300, 64, 64, 300, false, false},
    AttentionCase{"T5-XXL, bias", 300, 300, 64, 64, 300, false, true},
    AttentionCase{"T5-XXL, bias, 40 keys", 300, 300, 64, 64, 40, false, true},
    AttentionCase{"PixArt cross, plain", 4096, 300, 16, 72, 300, false, false},
    AttentionCase{"PixArt cross, 40 keys", 4096, 300, 16, 72, 40, false, false},
    AttentionCase{"SD cross, 64 x 64", 4096, 77, 8, 40, 77, false, false},
    AttentionCase{"SD self, 64 x 64", 4096, 4096, 8, 40, 4096, false, false},
    AttentionCase{"VAE, 64 x 64", 4096, 4096, 1, 512, 4096, false, false}};

/// A 3 x 3 convolution, padded by 1.
struct ConvCase {
  const char* name;
  std::int64_t height, width, in, out, stride;

  [[nodiscard]] Shape in_shape() const { return {1, height, width, in}; }
  [[nodiscard]] Shape out_shape() const {
    return {1, height / stride, width / stride, out};
  }
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(out_shape().num_elements() * in * 9);
  }
};

inline constexpr std::array kConvCases{
    ConvCase{"SD 64 x 64 x 320", 64, 64, 320, 320, 1},
    ConvCase{"SD 64 x 64, stride 2", 64, 64, 320, 320, 2},
    ConvCase{"SD 16 x 16 x 1280", 16, 16, 1280, 1280, 1},
    ConvCase{"SDXL 128 x 128 x 320", 128, 128, 320, 320, 1},
    ConvCase{"SDXL 64 x 64, stride 2", 64, 64, 640, 640, 2},
    ConvCase{"SDXL 32 x 32, 2560", 32, 32, 2560, 1280, 1}};

/// What lies between the products.
struct BetweenCase {
  const char* name;
  std::int64_t height, width, in, out;
  std::int64_t growth;  ///< of both sides
  /// `weights`: [in] f32.
  void (*run)(ExecContext& ctx, const Tensor& x, const Tensor& weights,
              Tensor& result);

  [[nodiscard]] Shape in_shape() const { return {1, height, width, in}; }
  [[nodiscard]] Shape out_shape() const {
    return {1, height * growth, width * growth, out};
  }
};

template <Activation kActivation>
void run_gated(ExecContext& ctx, const Tensor& x, const Tensor& /*weights*/,
               Tensor& result) {
  activate_gated(ctx, x, kActivation, result);
}
inline void run_quick_gelu(ExecContext& ctx, const Tensor& x,
                           const Tensor& /*weights*/, Tensor& result) {
  activate(ctx, x, Activation::gelu_sigmoid, result);
}
inline void run_group_norm(ExecContext& ctx, const Tensor& x,
                           const Tensor& weights, Tensor& result) {
  group_norm(ctx, x, weights, weights, 32, 1e-5F, Activation::silu, result);
}
inline void run_upsample(ExecContext& ctx, const Tensor& x,
                         const Tensor& /*weights*/, Tensor& result) {
  upsample_nearest2x(ctx, x, result);
}

inline constexpr std::array kBetweenCases{
    BetweenCase{"GEGLU, SD 64 x 64", 64, 64, 2560, 1280, 1,
                run_gated<Activation::gelu_erf>},
    BetweenCase{"GEGLU, SDXL 32 x 32", 32, 32, 10240, 5120, 1,
                run_gated<Activation::gelu_erf>},
    BetweenCase{"gated GELU, T5-XXL, 300", 300, 1, 20480, 10240, 1,
                run_gated<Activation::gelu_tanh>},
    BetweenCase{"quick GELU, CLIP-L", 77, 1, 3072, 3072, 1, run_quick_gelu},
    BetweenCase{"norm + SiLU, SD 64 x 64", 64, 64, 320, 320, 1, run_group_norm},
    BetweenCase{"norm + SiLU, SDXL 32 x 32", 32, 32, 1280, 1280, 1,
                run_group_norm},
    BetweenCase{"upsample, SDXL 64 x 64", 64, 64, 640, 640, 2, run_upsample}};

}  // namespace troupe::kernels
