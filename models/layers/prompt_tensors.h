#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "models/condition.h"

// What networks with prompts do alike when they prepare a condition.

namespace troupe::models {

/// The tensor "prompt_embeds" [L, width]: f32, bf16 or f16, with 1 to 4096
/// tokens that are no padding. Errors: Errc::invalid_argument with its name.
const ConditionTensor& checked_prompt_embeds(const Condition& condition,
                                             std::int64_t width);

/// Rows […, K] as [1, rows, K] in the compute type on ctx's device. What is
/// converted lies in the workspace.
[[nodiscard]] Tensor in_compute_type(ExecContext& ctx, const Tensor& rows,
                                     DType compute);

/// In ascending order, each once.
[[nodiscard]] std::vector<double> ascending(std::span<const double> timesteps);

}  // namespace troupe::models
