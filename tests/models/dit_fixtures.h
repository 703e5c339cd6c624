#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/dit/dit.h"
#include "models/files/weight_source.h"
#include "tests/models/dit_cases.h"

namespace troupe::models {

/// Rows of a batch with everything they need.
struct Rows {
  std::vector<Tensor> latents;
  std::vector<double> timesteps;
  std::vector<PreparedPtr> prepared;
  std::vector<const PreparedCondition*> conditions;

  void add(ExecContext& ctx, const Denoiser& denoiser, const Tensor& x,
           double timestep, const Condition& condition) {
    latents.push_back(x);
    timesteps.push_back(timestep);
    prepared.push_back(denoiser.prepare(ctx, condition));
    conditions.push_back(prepared.back().get());
  }
  [[nodiscard]] Batch batch() const {
    return {latents, timesteps, conditions,
            latents.empty() ? Shape() : latents.front().shape()};
  }
};

inline std::vector<Tensor> outputs_for(const Denoiser& denoiser,
                                       const std::vector<Tensor>& latents) {
  std::vector<Tensor> outputs;
  for (const Tensor& row : latents) {
    outputs.emplace_back(
        with_channels(row.shape(), denoiser.info().out_channels), DType::f32);
  }
  return outputs;
}

inline std::vector<Tensor> predict(ExecContext& ctx, const Denoiser& denoiser,
                                   const Rows& rows) {
  ShardContext whole;
  auto outputs = outputs_for(denoiser, rows.latents);
  denoiser.predict(ctx, whole, rows.batch(), outputs);
  return outputs;
}

inline DitConfig small_config(std::int64_t head_dim = 12) {
  DitConfig config;
  config.num_attention_heads = 3;
  config.attention_head_dim = head_dim;
  config.num_layers = 5;
  config.sample_size = 10;
  config.patch_size = 2;
  config.out_channels = 8;
  config.num_classes = 7;
  return config;
}

/// With random weights.
inline std::unique_ptr<Denoiser> load_random(
    ExecContext& ctx, const DenoiserDescription& description,
    DType compute = DType::f32, SegmentRange segment = {},
    WeightPlacement placement = WeightPlacement::resident,
    std::uint64_t seed = 11) {
  RandomWeights weights(ctx, seed);
  return description.load(ctx, compute, weights, segment, placement);
}

inline std::unique_ptr<Denoiser> small_dit(ExecContext& ctx,
                                           SegmentRange segment = {},
                                           DType compute = DType::f32) {
  return load_random(ctx, *describe(small_config()), compute, segment);
}

inline std::unique_ptr<Denoiser> small_dit(ExecContext& ctx, const DitCase& dit,
                                           SegmentRange segment = {}) {
  return load_random(ctx, *describe(small_config(dit.head_dim)), dit.compute,
                     segment);
}

/// What a pass of `count` rows took of `ctx`'s workspace, over what
/// its description said it would take beside the weights.
inline double workspace_over_forecast(ExecContext& ctx,
                                      kernels::Activation activation,
                                      DType compute, int count,
                                      bool gated = false) {
  DitConfig config = small_config(64);
  config.sample_size = 32;
  config.feed_forward.activation = activation;
  config.feed_forward.gated = gated;
  const auto dit = load_random(ctx, *describe(config), compute);
  Rows rows;
  for (int i = 0; i < count; ++i) {
    rows.add(ctx, *dit, Tensor(dit->info().latent_shape, DType::f32), 500.0, i);
  }
  (void)predict(ctx, *dit, rows);
  const NetworkMemory forecast = describe(config)->memory(
      config.latent_shape(), compute, ctx.device().kind);
  return static_cast<double>(ctx.workspace().capacity_bytes()) /
         static_cast<double>(forecast.of_rows(count));
}

inline Rows small_rows(ExecContext& ctx, const Denoiser& denoiser, int count) {
  Rows rows;
  for (int i = 0; i < count; ++i) {
    Tensor x(denoiser.info().latent_shape, DType::f32);
    for (std::int64_t k = 0; k < x.num_elements(); ++k) {
      x.data<float>()[k] =
          static_cast<float>(std::sin(0.37 * static_cast<double>(k) + i));
    }
    rows.add(ctx, denoiser, x, 999.0 - 111.0 * i, i % 8);
  }
  return rows;
}

}  // namespace troupe::models
