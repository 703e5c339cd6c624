#pragma once

#include <memory>

#include "models/network/network_description.h"
#include "models/unet/unet_config.h"

namespace troupe::models {

/// The UNet of Stable Diffusion 1.5, 2.1 and XL, with the arithmetic of
/// diffusers' UNet2DConditionModel. Blocks are the units of UNetLayout; a
/// boundary has the skips and "hidden", each [H, W, C] in the compute type.
///
/// A condition is "prompt_embeds" [L, cross_attention_dim] with 1 to 4096
/// tokens, f32, bf16 or f16; of SDXL also "pooled" [pooled width] of such a
/// type and "size_ids" [6] f32 (of its refiner [5]). Latents may have any
/// sides: an odd side is rounded up where it is halved, and the way up goes
/// back to the same sides, as in diffusers. Costs are those with a prompt of 77
/// tokens.
/// Source: Rombach et al. 2022, arXiv:2112.10752; Podell et al. 2023,
/// arXiv:2307.01952.
[[nodiscard]] std::unique_ptr<NetworkDescription> describe(
    const UNetConfig& config);

}  // namespace troupe::models
