#pragma once

#include <array>

#include "kernels/cuda/dnn_batch.cuh"
#include "kernels/cuda/dnn_problems.cuh"

namespace troupe::kernels::cuda {

/// Where q, k, v and out of a problem lie, and the scale on the host.
struct AttentionAddresses {
  std::byte* q;
  std::byte* k;
  std::byte* v;
  float* scale;
  std::byte* out;
};
[[nodiscard]] std::array<DnnOperand, 5> attention_operands(
    const AttentionProblem& problem, const AttentionAddresses& at);

/// Whether the plans of a shard (fewer queries, fewer heads, other row widths)
/// give the bytes that the plans of the whole give for the same rows and heads.
/// Tried with generated numbers, for the first and the last rows and heads.
/// Waits for the queue; not to be called while recording.
/// Errors: as DnnPlans::run.
[[nodiscard]] bool shard_agrees(ExecContext& ctx, const AttentionProblem& whole,
                                DnnPlans& whole_plans,
                                const AttentionProblem& shard,
                                DnnPlans& shard_plans);

}  // namespace troupe::kernels::cuda
