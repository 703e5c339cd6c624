#pragma once

#include <memory>

#include "models/dit/dit_config.h"
#include "models/network/network_description.h"

namespace troupe::models {

/// The diffusion transformer of Peebles & Xie 2023 (arXiv:2212.09748), with the
/// arithmetic of diffusers' DiTTransformer2DModel. (The authors' own code has
/// another eps and other timestep frequencies.)
///
/// Latents may be squares of any size in whole patches. A boundary is
/// "hidden_states" [N, D] f32.
[[nodiscard]] std::unique_ptr<NetworkDescription> describe(
    const DitConfig& config);

}  // namespace troupe::models
