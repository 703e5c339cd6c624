#include "models/layers/prompt_tensors.h"

#include <algorithm>
#include <string>

#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"

namespace troupe::models {

const ConditionTensor& checked_prompt_embeds(const Condition& condition,
                                             std::int64_t width) {
  constexpr const char* kTensor = "prompt_embeds";
  // PixArt-Sigma was trained with 300, alpha with 120, Stable Diffusion with
  // 77.
  constexpr std::int64_t kMostTokens = 4096;
  const ConditionTensor* prompt = condition.find(kTensor);
  require(prompt != nullptr, Errc::invalid_argument, kTensor,
          "missing: the network is conditioned on it");
  const Shape& shape = prompt->tensor.shape();
  if (shape.rank() != 2 || shape[1] != width) {
    throw Error(Errc::invalid_argument, kTensor,
                "got shape " + to_string(shape) + ", expected [tokens, " +
                    std::to_string(width) + "]");
  }
  const DType dtype = prompt->tensor.dtype();
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    throw Error(
        Errc::invalid_argument, kTensor,
        "got " + std::string(to_string(dtype)) + ", expected f32, bf16 or f16");
  }
  if (prompt->length < 1 || prompt->length > kMostTokens) {
    throw Error(Errc::invalid_argument, kTensor,
                "got " + std::to_string(prompt->length) +
                    " tokens without padding, expected 1 to " +
                    std::to_string(kMostTokens));
  }
  return *prompt;
}

Tensor in_compute_type(ExecContext& ctx, const Tensor& rows, DType compute) {
  const std::int64_t width = rows.dim(rows.shape().rank() - 1);
  const Shape shape{1, rows.num_elements() / width, width};
  Tensor x = kernels::on_device(ctx, rows).reshape(shape);
  // The CPU turns 16 bits into others by way of f32 only.
  for (const DType step : {DType::f32, compute}) {
    if (x.dtype() != step && x.dtype() != compute) {
      Tensor next = ctx.workspace().take(shape, step);
      kernels::convert(ctx, x, next);
      x = next;
    }
  }
  return x;
}

std::vector<double> ascending(std::span<const double> timesteps) {
  std::vector<double> sorted(timesteps.begin(), timesteps.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

}  // namespace troupe::models
