#pragma once

#include <cstdint>

#include "kernels/core/shape.h"
#include "models/files/config_fields.h"
#include "models/files/json.h"
#include "models/layers/adaln_block.h"
#include "models/layers/feed_forward.h"
#include "models/layers/patch_grid.h"

namespace troupe::models {

/// The keys of diffusers' DiTTransformer2DModel that change its arithmetic,
/// with the defaults of that class. (dropout and norm_num_groups change nothing
/// at inference; neither does upcast_attention, because logits are always f32
/// here.)
/// Source: diffusers models/transformers/dit_transformer_2d.py.
struct DitConfig {
  std::int64_t num_attention_heads = 16;
  std::int64_t attention_head_dim = 72;
  std::int64_t in_channels = 4;
  std::int64_t out_channels = 4;
  std::int64_t num_layers = 28;
  bool attention_bias = true;
  std::int64_t sample_size = 32;
  std::int64_t patch_size = 2;
  FeedForward feed_forward;
  std::int64_t num_classes = 1000;  ///< num_embeds_ada_norm
  float norm_eps = 1e-5F;
  /// The norm before the MLP has a learned gain and bias beside the modulation.
  bool norm_elementwise_affine = false;

  [[nodiscard]] std::int64_t width() const noexcept {
    return num_attention_heads * attention_head_dim;
  }
  [[nodiscard]] std::int64_t mlp_width() const noexcept {
    return block_shape().mlp_width();
  }
  [[nodiscard]] AdalnShape block_shape() const noexcept {
    return {num_attention_heads, attention_head_dim, feed_forward};
  }
  /// Diffusers' unpatchify takes squares alone.
  [[nodiscard]] PatchGrid grid() const noexcept {
    return {in_channels, out_channels, sample_size, patch_size, true};
  }
  [[nodiscard]] Shape latent_shape() const { return grid().latent_shape(); }
  [[nodiscard]] int num_blocks() const noexcept {
    return static_cast<int>(num_layers);
  }
};

constexpr void visit_fields(auto& visit, AnyConst<DitConfig> auto& c) {
  visit({"num_attention_heads", 1, 1024}, c.num_attention_heads);
  visit({"attention_head_dim", 1, 1024}, c.attention_head_dim);
  visit({"in_channels", 1, 4096}, c.in_channels);
  visit({"out_channels", 1, 4096}, c.out_channels);
  visit({"num_layers", 1, 4096}, c.num_layers);
  visit({"attention_bias"}, c.attention_bias);
  visit({"sample_size", 1, 65536}, c.sample_size);
  visit({"patch_size", 1, 256}, c.patch_size);
  visit(ParsedKey({"activation_fn"}), c.feed_forward.activation);
  visit({"num_embeds_ada_norm", 1, 100'000'000}, c.num_classes);
  visit({.name = "norm_eps", .not_negative = true}, c.norm_eps);
  visit(ParsedKey({.name = "activation_fn", .is_newer = true}),
        c.feed_forward.gated);
  visit({.name = "norm_elementwise_affine", .is_newer = true},
        c.norm_elementwise_affine);
}
static_assert(lists_all_members<DitConfig>());

/// Reads config.json of DiTTransformer2DModel, or of an old Transformer2DModel
/// with norm_type ada_norm_zero.
/// Errors: Errc::corrupt_file; Errc::unsupported for values no DiT has.
[[nodiscard]] DitConfig parse_dit_config(const Json& json);

}  // namespace troupe::models
