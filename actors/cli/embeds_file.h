#pragma once

#include <string>
#include <vector>

#include "actors/cli/job_conditions.h"
#include "kernels/core/boundary.h"
#include "models/description.h"

// Encoded prompts in files, under the names of diffusers' arguments:
// prompt_embeds [n, L, D] and prompt_attention_mask [n, L] (ones, then zeros;
// without it every token counts), and the same of one prompt with negative_
// before them. The axis n may be missing.

namespace troupe::actors {

/// The conditions in a file. With `is_guided` the negative prompt must be
/// there. Errors: those of read_tensors; Errc::invalid_argument and
/// Errc::shape_mismatch for tensors that the network does not take.
[[nodiscard]] JobConditions read_embeds(
    const std::string& path, const models::DenoiserDescription& network,
    bool is_guided);

/// The tensors of such a file; f32, the mask i64.
[[nodiscard]] std::vector<NamedTensor> embeds_of(
    const JobConditions& conditions);

}  // namespace troupe::actors
