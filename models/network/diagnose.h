#pragma once

#include <string>

#include "models/network/denoiser.h"

namespace troupe::models {

/// Where the first NaN or infinity of a forward pass appears: "latents",
/// "embedding", "block 7", "output", or "" when everything is finite. Runs the
/// network again, block by block, so it is for use after a failure only.
/// Errors: as Denoiser.
[[nodiscard]] std::string first_non_finite(ExecContext& ctx,
                                           ShardContext& shard,
                                           const Denoiser& denoiser,
                                           const Batch& batch);

}  // namespace troupe::models
