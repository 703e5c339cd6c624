#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/core/tensor.h"
#include "models/files/config_fields.h"
#include "models/files/json.h"

namespace troupe::models {

/// One resolution of a UNet, on the way down or up.
struct UNetLevel {
  std::int64_t width = 0;  ///< channels
  std::int64_t heads = 1;  ///< of attention
  /// Transformer blocks behind each residual block on the way down; 0: none.
  std::int64_t depth = 0;
};

/// The keys of diffusers' UNet2DConditionModel that change its arithmetic, with
/// the defaults of that class. Keys that would change it otherwise are refused.
/// Source: diffusers models/unets/unet_2d_condition.py.
struct UNetConfig {
  std::int64_t sample_height = 64;
  std::int64_t sample_width = 64;
  std::int64_t in_channels = 4;
  std::int64_t out_channels = 4;
  std::vector<UNetLevel> levels;  ///< from the outermost to the innermost
  /// Transformer blocks on the way up, by level.
  std::vector<std::int64_t> up_depths;
  std::int64_t mid_depth = 1;
  std::int64_t layers_per_block = 2;  ///< residual blocks; one more going up
  kernels::Activation activation = kernels::Activation::silu;
  std::int64_t norm_num_groups = 32;
  float norm_eps = 1e-5F;
  std::int64_t cross_attention_dim = 1280;  ///< width of prompt_embeds
  std::int64_t time_embed_dim = 1280;
  /// SDXL (addition_embed_type "text_time"): width of the pooled prompt beside
  /// six sizes, and of the embedding of each size; 0: it takes neither.
  std::int64_t pooled_width = 0;
  std::int64_t size_embed_dim = 0;

  [[nodiscard]] bool has_sizes() const noexcept { return size_embed_dim > 0; }
  /// Width of what goes in and out of add_embedding.
  [[nodiscard]] std::int64_t added_width() const noexcept {
    return pooled_width + kSizes * size_embed_dim;
  }
  [[nodiscard]] Shape latent_shape() const {
    return {in_channels, sample_height, sample_width};
  }
  /// Units of its UNetLayout: residual blocks and one more of each level, on
  /// the way down or in the middle, and the same on the way up.
  [[nodiscard]] int num_blocks() const noexcept {
    return static_cast<int>(2 * (layers_per_block + 1) * std::ssize(levels));
  }

  /// Width of the pooled prompt beside so many sizes. The file says no more
  /// than the sum.
  [[nodiscard]] std::int64_t pooled_beside(std::int64_t sizes) const noexcept {
    return added_width() - sizes * size_embed_dim;
  }

  /// Original size, crop and target size of SDXL's pictures.
  static constexpr std::int64_t kSizes = 6;
  /// Original size, crop and aesthetic score of its refiner's.
  static constexpr std::int64_t kScoredSizes = 5;
};

constexpr void visit_fields(auto& visit, AnyConst<UNetLevel> auto& c) {
  visit(ParsedKey({"block_out_channels"}), c.width);
  visit(ParsedKey({"attention_head_dim"}), c.heads);
  visit(ParsedKey({"transformer_layers_per_block"}), c.depth);
}
static_assert(lists_all_members<UNetLevel>());

constexpr void visit_fields(auto& visit, AnyConst<UNetConfig> auto& c) {
  visit(ParsedKey({"sample_size"}), c.sample_height);
  visit(ParsedKey({"sample_size"}), c.sample_width);
  visit({"in_channels", 1, 4096}, c.in_channels);
  visit({"out_channels", 1, 4096}, c.out_channels);
  visit(ParsedKey({.name = "down_block_types", .has_length = false}), c.levels);
  visit(ParsedKey({.name = "up_block_types", .has_length = false}),
        c.up_depths);
  visit(ParsedKey({"transformer_layers_per_block"}), c.mid_depth);
  visit(ParsedKey({"layers_per_block"}), c.layers_per_block);
  visit(ParsedKey({"act_fn"}), c.activation);
  visit({"norm_num_groups", 1, 65536}, c.norm_num_groups);
  visit({.name = "norm_eps", .not_negative = true}, c.norm_eps);
  visit({"cross_attention_dim", 1, 65536}, c.cross_attention_dim);
  visit({"time_embedding_dim", 1, 1 << 20}, c.time_embed_dim);
  visit(ParsedKey({"projection_class_embeddings_input_dim"}), c.pooled_width);
  visit(ParsedKey({"addition_time_embed_dim"}), c.size_embed_dim);
}
static_assert(lists_all_members<UNetConfig>());

/// The one length of both lists stands in front of all fields.
[[nodiscard]] std::uint64_t hash_of(const UNetConfig& config,
                                    std::uint64_t tensors);

/// Reads config.json of UNet2DConditionModel.
/// Errors: Errc::corrupt_file; Errc::unsupported for a UNet of another kind
/// than those of Stable Diffusion 1.5, 2.1 and XL.
[[nodiscard]] UNetConfig parse_unet_config(const Json& json);

/// Keys of the class, separated by spaces.
[[nodiscard]] std::string unet_config_keys();

}  // namespace troupe::models
