#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/core/noise.h"
#include "models/files/weight_source.h"
#include "models/pixart/pixart.h"
#include "tests/models/dit_fixtures.h"

namespace troupe::models {

inline PixArtConfig small_pixart_config(std::int64_t head_dim = 12) {
  PixArtConfig config;
  config.num_attention_heads = 3;
  config.attention_head_dim = head_dim;
  config.num_layers = 4;
  config.sample_size = 10;
  config.patch_size = 2;
  config.interpolation_scale = 1.5;
  config.caption_channels = 20;
  return config;
}

inline std::unique_ptr<Denoiser> small_pixart(
    ExecContext& ctx, const DitCase& way = {}, SegmentRange segment = {},
    WeightPlacement placement = WeightPlacement::resident) {
  return load_random(ctx, *describe(small_pixart_config(way.head_dim)),
                     way.compute, segment, placement);
}

/// `seed` gives the tokens, whatever the padding; the padding is noise.
inline Condition prompt(std::uint64_t seed, std::int64_t tokens,
                        std::int64_t padding = 0, std::int64_t width = 20) {
  Tensor all({tokens + padding, width}, DType::f32);
  Tensor valid = all.slice(0, tokens);
  fill_normal({.seed = seed}, valid);
  Tensor rest = all.slice(tokens, tokens + padding);
  fill_normal({.seed = 1000 + seed + static_cast<std::uint64_t>(padding)},
              rest);
  Condition condition;
  condition.add("prompt_embeds", std::move(all), tokens);
  return condition;
}

/// Prompts of 1, 8, 15, … tokens.
inline Condition prompt_of_row(std::int64_t row, std::int64_t padding = 0) {
  return prompt(static_cast<std::uint64_t>(row), 1 + 7 * row, padding);
}

inline Tensor latents_of_row(std::int64_t row, const Shape& shape) {
  Tensor x(shape, DType::f32);
  fill_normal({.seed = 50 + static_cast<std::uint64_t>(row)}, x);
  return x;
}

inline Rows prompted_rows(ExecContext& ctx, const Denoiser& denoiser, int count,
                          const Shape& shape = {4, 10, 10}) {
  Rows rows;
  for (int i = 0; i < count; ++i) {
    rows.add(ctx, denoiser, latents_of_row(i, shape), 999.0 - 111.0 * i,
             prompt_of_row(i));
  }
  return rows;
}

/// Rows of the same bytes.
inline void expect_same(const std::vector<Tensor>& got,
                        const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(bytes_equal(got[i], want[i])) << "row " << i;
  }
}

}  // namespace troupe::models
