#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "actors/rank_team.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/core/noise.h"
#include "models/description.h"
#include "models/files/weight_source.h"
#include "models/vae/autoencoder_kl.h"
#include "tests/models/two_streams.h"

// Networks whose passes ranks divide, drawn from a seed.

namespace troupe::actors {

using models::Batch;
using models::Denoiser;
using models::PreparedPtr;

struct Drawn {
  std::unique_ptr<models::DenoiserDescription> network;
  Shape latents;
  std::string what;
};

/// Cases from one seed.
class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}

  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool coin() { return number(0, 1) == 1; }
  /// Uneven shares, which sum up to 1.
  std::vector<double> shares(int ranks) {
    std::vector<double> shares;
    double sum = 0;
    for (int r = 0; r < ranks; ++r) {
      sum += shares.emplace_back(
          std::uniform_real_distribution<double>(0.05, 1)(engine_));
    }
    for (double& share : shares) {
      share /= sum;
    }
    return shares;
  }

  /// A small network that ranks on such devices divide, with at least `tokens`
  /// tokens of an image. Heads have 16 columns, or a multiple of 6 in two
  /// streams.
  Drawn network(std::int64_t tokens, DeviceKind device) {
    const std::int64_t head_dim = device == DeviceKind::cpu ? 12 : 24;
    std::int64_t side = 2;
    while (side * side < tokens) {
      ++side;
    }
    side += number(0, 3);
    const std::int64_t heads = number(1, 5);
    const std::int64_t blocks = number(1, 3);
    const auto described = [&](const std::string& json) {
      const models::Json config = models::Json::parse(json, "drawn");
      return models::find_denoiser(config, config.string("_class_name", ""))
          .describe(config);
    };
    const auto text = [](std::int64_t n) { return std::to_string(n); };
    switch (number(0, 4)) {
      case 0:
        return {described(
                    R"({"_class_name":"DiTTransformer2DModel","patch_size":2,
                        "attention_head_dim":16,"num_embeds_ada_norm":9,
                        "num_attention_heads":)" +
                    text(heads) + R"(,"num_layers":)" + text(blocks) +
                    R"(,"sample_size":)" + text(2 * side) + "}"),
                {4, 2 * side, 2 * side},
                "DiT"};
      case 1:
        return {described(
                    R"({"_class_name":"PixArtTransformer2DModel",
                        "patch_size":2,"attention_head_dim":16,
                        "norm_type":"ada_norm_single","out_channels":8,
                        "caption_channels":24,"num_attention_heads":)" +
                    text(heads) + R"(,"cross_attention_dim":)" +
                    text(16 * heads) + R"(,"num_layers":)" + text(blocks) +
                    R"(,"sample_size":)" + text(2 * side) + "}"),
                {4, 2 * side, 2 * side + 2 * number(0, 3)},
                "PixArt"};
      case 2:
        return {described(
                    R"({"_class_name":"UViT","patch_size":2,"in_chans":4,
                        "num_classes":9,"embed_dim":)" +
                    text(16 * heads) + R"(,"num_heads":)" + text(heads) +
                    R"(,"depth":)" + text(blocks) + R"(,"conv":)" +
                    (coin() ? "true" : "false") + R"(,"img_size":)" +
                    text(2 * side) + "}"),
                {4, 2 * side, 2 * side},
                "U-ViT"};
      case 3: {
        models::two_streams::Config config{.head_dim = head_dim};
        config.heads = heads;
        config.text_tokens = number(1, 200);
        const Shape latents{4, side, side + number(0, 5)};
        return {std::make_unique<models::two_streams::Description>(config),
                latents, "two streams"};
      }
      default:
        // Three levels of several channels, some with attention. Sides may be
        // odd at every level, and low levels have too few pixels for ranks.
        return {described(
                    R"({"_class_name":"UNet2DConditionModel","in_channels":4,
                    "out_channels":4,"norm_num_groups":8,
                    "down_block_types":["CrossAttnDownBlock2D","DownBlock2D",
                                        "CrossAttnDownBlock2D"],
                    "up_block_types":["CrossAttnUpBlock2D","UpBlock2D",
                                      "CrossAttnUpBlock2D"],
                    "block_out_channels":[16,32,48],
                    "cross_attention_dim":24,"layers_per_block":)" +
                    text(number(1, 2)) + R"(,"attention_head_dim":)" +
                    text(number(1, 2)) + "}"),
                {4, side + number(0, 9), side},
                "UNet"};
    }
  }
  /// A small decoder, smaller still for emulated GPUs.
  models::AutoencoderKlConfig decoder(DeviceKind device) {
    const bool on_cpu = device == DeviceKind::cpu;
    const std::int64_t unit = on_cpu ? 16 : 8;
    models::AutoencoderKlConfig config;
    config.block_out_channels = {unit, unit + 8, unit * number(1, 3)};
    config.layers_per_block = number(1, 2);
    config.norm_num_groups = 8;
    config.use_post_quant_conv = coin();
    if (coin()) {
      config.up_block_attention = {coin(), false, on_cpu && coin()};
    }
    return config;
  }

 private:
  std::mt19937 engine_;
};

/// Rows of one network, on the device of a context.
struct Rows {
  Rows(ExecContext& ctx, const Drawn& drawn, const Denoiser& network,
       std::int64_t count)
      : latent_shape(drawn.latents) {
    for (std::int64_t i = 0; i < count; ++i) {
      Tensor noise(drawn.latents, DType::f32);
      fill_normal({.seed = static_cast<std::uint64_t>(i)}, noise);
      latents.push_back(kernels::on_device(ctx, noise));
      timesteps.push_back(900.0 - 130.0 * static_cast<double>(i));
      prepared.push_back(
          network.prepare(ctx, drawn.network->any_condition({})));
      conditions.push_back(prepared.back().get());
      outputs.push_back(
          ctx.empty(with_channels(drawn.latents, network.info().out_channels),
                    DType::f32));
    }
  }
  [[nodiscard]] Batch batch() const {
    return {latents, timesteps, conditions, latent_shape, ring_blocks};
  }

  Shape latent_shape;
  std::int64_t ring_blocks = 1;
  std::vector<Tensor> latents;
  std::vector<double> timesteps;
  std::vector<PreparedPtr> prepared;
  std::vector<const models::PreparedCondition*> conditions;
  std::vector<Tensor> outputs;
};

/// What `work` throws.
inline Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {Errc::internal, "", "no error"};
}
inline Error error_of(RankTeam& team, const ShardTeam::Pass& pass) {
  return error_of([&] { team.run(pass); });
}

/// As many as TROUPE_SHARD_CASES says.
inline int num_cases(int ordinary) {
  const char* const wanted = std::getenv("TROUPE_SHARD_CASES");
  return wanted == nullptr ? ordinary : std::atoi(wanted);
}

}  // namespace troupe::actors
