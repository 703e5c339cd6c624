#pragma once

#include <cstdint>
#include <memory>

#include "models/files/weight_source.h"
#include "models/unet/unet.h"
#include "models/unet/unet_layout.h"
#include "tests/models/pixart_fixtures.h"

namespace troupe::models {

/// Three levels, attention in the outer two going down and in the inner two
/// going up; with_sizes: conditioned as SDXL is.
inline UNetConfig small_unet_config(bool with_sizes = false,
                                    std::int64_t head_dim = 12) {
  UNetConfig config;
  config.sample_height = config.sample_width = 8;
  config.levels = {{2 * head_dim, 2, 1}, {2 * head_dim, 1, 2}, {48, 4, 0}};
  config.up_depths = {0, 1, 2};
  config.mid_depth = 2;
  config.layers_per_block = 1;
  config.norm_num_groups = 4;
  config.cross_attention_dim = 20;
  config.time_embed_dim = 40;
  if (with_sizes) {
    config.pooled_width = 9;
    config.size_embed_dim = 6;
  }
  return config;
}

inline std::unique_ptr<Denoiser> small_unet(ExecContext& ctx,
                                            const UNetConfig& config,
                                            DType compute = DType::f32,
                                            SegmentRange segment = {}) {
  return load_random(ctx, *describe(config), compute, segment);
}

inline Condition unet_condition(const UNetConfig& config, std::uint64_t seed,
                                std::int64_t tokens, std::int64_t padding = 0) {
  Condition condition = prompt(seed, tokens, padding);
  if (config.has_sizes()) {
    Tensor pooled({config.pooled_width}, DType::f32);
    fill_normal({.seed = 2000 + seed}, pooled);
    condition.add("pooled", std::move(pooled));
    Tensor sizes({UNetConfig::kSizes}, DType::f32);
    for (std::int64_t i = 0; i < UNetConfig::kSizes; ++i) {
      sizes.data<float>()[i] =
          static_cast<float>(128 * i + static_cast<std::int64_t>(seed));
    }
    condition.add("size_ids", std::move(sizes));
  }
  return condition;
}

/// Prompts of 1, 8, 15, … tokens.
inline Rows unet_rows(ExecContext& ctx, const Denoiser& denoiser,
                      const UNetConfig& config, int count,
                      const Shape& shape = {4, 8, 8}) {
  Rows rows;
  for (int i = 0; i < count; ++i) {
    rows.add(ctx, denoiser, latents_of_row(i, shape), 999.0 - 111.0 * i,
             unet_condition(config, static_cast<std::uint64_t>(i), 1 + 7 * i));
  }
  return rows;
}

}  // namespace troupe::models
