#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"
#include "kernels/core/shape.h"
#include "models/json.h"

namespace troupe::models {

/// The keys of diffusers' DiTTransformer2DModel that change its arithmetic,
/// with the defaults of that class. (dropout and norm_num_groups change nothing
/// at inference; neither does upcast_attention, because logits are always f32
/// here.)
/// Source: diffusers models/transformers/dit_transformer_2d.py.
struct DitConfig {
  static constexpr std::int64_t kMostTokens = std::int64_t{1} << 16;
  /// Most elements of one image's latents or output: 1 GiB of f32. (No tensor
  /// of a checkpoint limits the size of latents.)
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

  std::int64_t num_attention_heads = 16;
  std::int64_t attention_head_dim = 72;
  std::int64_t in_channels = 4;
  std::int64_t out_channels = 4;
  std::int64_t num_layers = 28;
  bool attention_bias = true;
  std::int64_t sample_size = 32;
  std::int64_t patch_size = 2;
  kernels::Activation activation = kernels::Activation::gelu_tanh;
  /// The first MLP layer makes 8D values, a and b (D is the width); the second
  /// reads a · activation(b). Source: diffusers models/activations.py, GEGLU
  /// and SwiGLU.
  bool gated_mlp = false;
  std::int64_t num_classes = 1000;  ///< num_embeds_ada_norm
  float norm_eps = 1e-5F;
  /// The norm before the MLP has a learned gain and bias beside the modulation.
  bool norm_elementwise_affine = false;

  [[nodiscard]] std::int64_t width() const noexcept {
    return num_attention_heads * attention_head_dim;
  }
  [[nodiscard]] std::int64_t mlp_width() const noexcept { return 4 * width(); }
  /// [C, H, W] of the size it was trained with.
  [[nodiscard]] Shape latent_shape() const {
    return {in_channels, sample_size, sample_size};
  }
  /// Tokens of latents [C, H, W].
  [[nodiscard]] std::int64_t num_tokens(const Shape& latents) const noexcept {
    return (latents[1] / patch_size) * (latents[2] / patch_size);
  }
};

/// Reads config.json of DiTTransformer2DModel, or of an old Transformer2DModel
/// with norm_type ada_norm_zero.
/// Errors: Errc::corrupt_file; Errc::unsupported for values no DiT has.
[[nodiscard]] DitConfig parse_dit_config(const Json& json);

}  // namespace troupe::models
