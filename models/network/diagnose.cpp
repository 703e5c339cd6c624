#include "models/network/diagnose.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/reduction.h"

namespace troupe::models {
namespace {

bool finite(ExecContext& ctx, const Tensor& tensor) {
  const Workspace::Scope scope(ctx.workspace());
  Tensor numbers = tensor;
  if (tensor.dtype() != DType::f32) {  // boundaries of a UNet
    numbers = ctx.workspace().take(tensor.shape(), DType::f32);
    kernels::convert(ctx, tensor, numbers);
  }
  kernels::Readings readings(ctx, 1);
  readings.all_finite(numbers);
  return readings.wait()[0] != 0.0;
}

bool finite(ExecContext& ctx, const std::vector<Boundary>& boundaries) {
  return std::all_of(boundaries.begin(), boundaries.end(),
                     [&](const Boundary& boundary) {
                       return std::all_of(boundary.begin(), boundary.end(),
                                          [&](const NamedTensor& named) {
                                            return finite(ctx, named.tensor);
                                          });
                     });
}

}  // namespace

std::string first_non_finite(ExecContext& ctx, ShardContext& shard,
                             const Denoiser& denoiser, const Batch& batch) {
  for (const Tensor& latents : batch.latents) {
    if (!finite(ctx, latents)) {
      return "latents";
    }
  }
  std::vector<Boundary> boundaries(batch.latents.size());
  denoiser.embed(ctx, shard, batch, boundaries);
  if (!finite(ctx, boundaries)) {
    return "embedding";
  }
  const auto num_blocks = static_cast<int>(denoiser.info().blocks.size());
  for (int i = 0; i < num_blocks; ++i) {
    denoiser.run_blocks(ctx, shard, batch, i, i + 1, boundaries);
    if (!finite(ctx, boundaries)) {
      return "block " + std::to_string(i);
    }
  }
  std::vector<Tensor> outputs;
  for (const Tensor& latents : batch.latents) {
    outputs.push_back(
        ctx.empty(with_channels(latents.shape(), denoiser.info().out_channels),
                  DType::f32));
  }
  denoiser.finish(ctx, shard, batch, boundaries, outputs);
  const bool all = std::all_of(outputs.begin(), outputs.end(),
                               [&](const Tensor& t) { return finite(ctx, t); });
  return all ? "" : "output";
}

}  // namespace troupe::models
