#pragma once

#include <memory>

#include "models/network/network_description.h"
#include "models/pixart/pixart_config.h"

namespace troupe::models {

/// PixArt-Sigma (Chen et al. 2024, arXiv:2403.04692), with the arithmetic of
/// diffusers' PixArtTransformer2DModel: a DiT whose timestep modulates all
/// blocks alike, and whose tokens attend to a prompt's.
///
/// A condition is the tensor "prompt_embeds" [L, caption channels] alone, f32,
/// bf16 or f16, with 1 to 4096 tokens that are no padding; padding has no
/// effect on any bit. Latents may be rectangles of any size in whole patches. A
/// boundary is "hidden_states" [N, D] f32. Costs are those with a prompt of 300
/// tokens.
[[nodiscard]] std::unique_ptr<NetworkDescription> describe(
    const PixArtConfig& config);

}  // namespace troupe::models
