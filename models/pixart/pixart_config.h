#pragma once

#include <cstdint>

#include "models/files/config_fields.h"
#include "models/files/json.h"
#include "models/layers/adaln_block.h"
#include "models/layers/feed_forward.h"
#include "models/layers/patch_grid.h"

namespace troupe::models {

/// The keys of diffusers' PixArtTransformer2DModel that change its arithmetic,
/// with the defaults of that class. (dropout, norm_num_groups,
/// num_embeds_ada_norm and upcast_attention change nothing here.)
/// Source: diffusers models/transformers/pixart_transformer_2d.py.
struct PixArtConfig {
  std::int64_t num_attention_heads = 16;
  std::int64_t attention_head_dim = 72;
  std::int64_t in_channels = 4;
  std::int64_t out_channels = 8;
  std::int64_t num_layers = 28;
  bool attention_bias = true;
  std::int64_t sample_size = 128;
  std::int64_t patch_size = 2;
  FeedForward feed_forward;
  float norm_eps = 1e-6F;
  double interpolation_scale = 2.0;
  std::int64_t caption_channels = 4096;  ///< width of prompt_embeds

  [[nodiscard]] std::int64_t width() const noexcept {
    return num_attention_heads * attention_head_dim;
  }
  [[nodiscard]] AdalnShape block_shape() const noexcept {
    return {num_attention_heads, attention_head_dim, feed_forward};
  }
  /// Any rectangle of whole patches.
  [[nodiscard]] PatchGrid grid() const noexcept {
    return {in_channels, out_channels, sample_size, patch_size, false};
  }
  [[nodiscard]] Shape latent_shape() const { return grid().latent_shape(); }
  [[nodiscard]] int num_blocks() const noexcept {
    return static_cast<int>(num_layers);
  }
};

constexpr void visit_fields(auto& visit, AnyConst<PixArtConfig> auto& c) {
  visit({"num_attention_heads", 1, 1024}, c.num_attention_heads);
  visit({"attention_head_dim", 1, 1024}, c.attention_head_dim);
  visit({"in_channels", 1, 4096}, c.in_channels);
  visit({"out_channels", 1, 4096}, c.out_channels);
  visit({"num_layers", 1, 4096}, c.num_layers);
  visit({"attention_bias"}, c.attention_bias);
  visit({"sample_size", 1, 65536}, c.sample_size);
  visit({"patch_size", 1, 256}, c.patch_size);
  visit(ParsedKey({"activation_fn"}), c.feed_forward.activation);
  visit(ParsedKey({"activation_fn"}), c.feed_forward.gated);
  visit({.name = "norm_eps", .not_negative = true}, c.norm_eps);
  visit({"interpolation_scale"}, c.interpolation_scale);
  visit({"caption_channels", 1, 65536}, c.caption_channels);
}
static_assert(lists_all_members<PixArtConfig>());

/// Reads config.json of PixArtTransformer2DModel, or of an old
/// Transformer2DModel with norm_type ada_norm_single.
/// Errors: Errc::corrupt_file; Errc::unsupported for values no PixArt-Sigma
/// has, such as the size embeddings of PixArt-alpha at 1024 pixels.
[[nodiscard]] PixArtConfig parse_pixart_config(const Json& json);

}  // namespace troupe::models
