#pragma once

#include <string>
#include <vector>

#include "actors/cli/job_conditions.h"
#include "actors/cli/model_source.h"
#include "kernels/core/boundary.h"

// Encoded prompts in files, under the names of diffusers' arguments:
// prompt_embeds [n, L, D], prompt_attention_mask [n, L] (ones, then zeros;
// without it every token counts) and pooled_prompt_embeds [n, P], and the same
// of the negative prompt with negative_ before them: [1, …], or [n, …] with
// equal rows, as encode_prompt of diffusers returns them for n prompts. The
// axis n may be missing.

namespace troupe::actors {

/// The conditions in a file. With `is_guided` the negative prompt must be
/// there. Errors: those of read_tensors; Errc::invalid_argument and
/// Errc::shape_mismatch for tensors that the network does not take.
[[nodiscard]] JobConditions read_embeds(const std::string& path,
                                        const ModelSource& model,
                                        bool is_guided);

/// The tensors of such a file; f32, the mask i64. has_masks: the pipeline
/// leaves padding out.
[[nodiscard]] std::vector<NamedTensor> embeds_of(
    const JobConditions& conditions, bool has_masks);

}  // namespace troupe::actors
