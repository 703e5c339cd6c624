#pragma once

#include <string_view>

namespace troupe::models {

/// Keys in the config.json of DiT and PixArt, separated by spaces. Both were
/// one class before diffusers 0.29, and each still takes the other's.
inline constexpr std::string_view kTransformerKeys =
    "activation_fn attention_bias attention_head_dim attention_type "
    "caption_channels cross_attention_dim double_self_attention dropout "
    "in_channels interpolation_scale norm_elementwise_affine norm_eps "
    "norm_num_groups norm_type num_attention_heads num_embeds_ada_norm "
    "num_layers num_vector_embeds only_cross_attention out_channels "
    "patch_size sample_size upcast_attention use_additional_conditions "
    "use_linear_projection";

}  // namespace troupe::models
