#include "models/autoencoder_kl.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "models/activation_names.h"
#include "models/autoencoder_kl_weights.h"
#include "models/ping_pong.h"

// C latent channels, h and w latent sides; inside, [1, H, W, channels].

namespace troupe::models {
namespace {

using kernels::Activation;

constexpr float kEps = 1e-6F;

/// Which up blocks attend; empty where none does.
std::vector<bool> parse_up_blocks(const Json& json, std::size_t widths) {
  std::vector<bool> attends;
  for (const std::string& type : json.string_list("up_block_types")) {
    const bool is_plain = type == "UpDecoderBlock2D";
    require(is_plain || type == "AttnUpDecoderBlock2D", Errc::unsupported,
            json.place(),
            "up_block_types: got " + in_quotes(type) +
                ", expected UpDecoderBlock2D or AttnUpDecoderBlock2D",
            "this autoencoder cannot be run");
    attends.push_back(!is_plain);
  }
  require(!json.has("up_block_types") || attends.size() == widths,
          Errc::unsupported, json.place(),
          "up_block_types: expected one for each of block_out_channels",
          "this autoencoder cannot be run");
  const bool any = std::ranges::find(attends, true) != attends.end();
  return any ? attends : std::vector<bool>();
}

/// One number, or two for the sides: diffusers cuts tiles by the first.
std::int64_t parse_sample_size(const Json& json) {
  constexpr std::int64_t kDefault = 32;
  constexpr std::int64_t kMost = 1 << 20;
  if (!json.is_list("sample_size")) {
    return json.integer("sample_size", kDefault, 1, kMost);
  }
  const auto sides = json.integers("sample_size", {}, 1, kMost);
  return sides.empty() ? kDefault : sides.front();
}

void check_per_channel(const Json& json, const char* key,
                       const std::vector<double>& values,
                       std::int64_t channels) {
  if (!values.empty() && static_cast<std::int64_t>(values.size()) != channels) {
    throw Error(Errc::corrupt_file, json.place(),
                std::string(key) + ": got " + std::to_string(values.size()) +
                    " numbers, expected " + std::to_string(channels),
                "correct this file");
  }
}

/// Runs the decoder's layers on workspace memory.
class Decoder {
 public:
  Decoder(ExecContext& ctx, const AutoencoderKlConfig& config, DType compute)
      : ctx_(ctx), config_(config), compute_(compute) {}

  [[nodiscard]] Tensor take(const Tensor& like, std::int64_t channels) {
    return ctx_.workspace().take({1, like.dim(1), like.dim(2), channels},
                                 compute_);
  }

  void norm(const Tensor& x, const NormWeights& weights, Activation activation,
            Tensor& out) {
    kernels::group_norm(ctx_, x, weights.weight, weights.bias,
                        config_.norm_num_groups, kEps, activation, out);
  }

  void resnet(const Tensor& x, const ResnetWeights& block, Tensor& out) {
    run_resnet(ctx_, block, {config_.norm_num_groups, kEps, config_.activation},
               x, {}, out);
  }

  /// x += attention over all pixels, one head as wide as x.
  void attention(const VaeAttention& block, Tensor& x) {
    const Workspace::Scope scope(ctx_.workspace());
    const std::int64_t width = x.dim(3);
    const std::int64_t tokens = x.dim(1) * x.dim(2);
    Tensor normed = take(x, width);
    norm(x, block.norm, Activation::none, normed);
    normed = normed.reshape({1, tokens, width});
    Tensor qkv = ctx_.workspace().take({1, tokens, 3 * width}, compute_);
    kernels::linear(ctx_, normed, block.qkv, Activation::none, qkv);
    Tensor attended = ctx_.workspace().take({1, tokens, width}, compute_);
    kernels::attention(ctx_, {qkv, 0}, {qkv, width}, {qkv, 2 * width}, 1, width,
                       attended);
    kernels::linear(ctx_, attended, block.out, Activation::none, normed);
    Tensor flat = x.reshape({1, tokens, width});
    kernels::add(ctx_, normed, flat);
  }

 private:
  ExecContext& ctx_;
  const AutoencoderKlConfig& config_;
  DType compute_;
};

/// Elements of the largest tensor between two layers.
std::int64_t most_elements(const AutoencoderKlConfig& config,
                           std::int64_t pixels) {
  const auto& widths = config.block_out_channels;
  std::int64_t most = pixels * std::max(widths.back(), config.latent_channels);
  for (std::size_t i = widths.size() - 1; i > 0; --i) {
    pixels *= 4;
    most = std::max(most, pixels * widths[i]);
  }
  return std::max(most, pixels * widths[0]);
}

/// Elements of the buffers inside a layer: two of a resnet; normed, qkv and
/// attended of attention.
std::int64_t inner_elements(const AutoencoderKlConfig& config,
                            std::int64_t pixels) {
  const auto& widths = config.block_out_channels;
  std::int64_t most = 2 * most_elements(config, pixels);
  if (config.mid_block_add_attention) {
    most = std::max(most, 5 * pixels * widths.back());
  }
  for (std::size_t i = 0; i < config.up_block_attention.size(); ++i) {
    if (config.attends_in_up_block(i)) {
      most = std::max(most, 5 * pixels * widths[widths.size() - 1 - i]);
    }
    pixels *= 4;
  }
  return most;
}

/// Undoes the normalisation of latents, per channel.
void denormalise(const AutoencoderKlConfig& config, const Tensor& latents,
                 Tensor& out) {
  const std::int64_t pixels = latents.dim(1) * latents.dim(2);
  const bool per_channel =
      !config.latents_mean.empty() && !config.latents_std.empty();
  for (std::int64_t c = 0; c < latents.dim(0); ++c) {
    const auto channel = static_cast<std::size_t>(c);
    const auto scale = static_cast<float>(config.scaling_factor);
    const float* from = latents.data<float>() + c * pixels;
    float* to = out.data<float>() + c * pixels;
    for (std::int64_t i = 0; i < pixels; ++i) {
      to[i] = per_channel
                  ? from[i] * static_cast<float>(config.latents_std[channel]) /
                            scale +
                        static_cast<float>(config.latents_mean[channel])
                  : from[i] / scale + static_cast<float>(config.shift_factor);
    }
  }
}

}  // namespace

AutoencoderKlConfig parse_autoencoder_kl_config(const Json& json) {
  AutoencoderKlConfig config;
  read_fields(json, config);
  config.activation = parse_activation(json, "this autoencoder cannot be run");
  check_per_channel(json, "latents_mean", config.latents_mean,
                    config.latent_channels);
  check_per_channel(json, "latents_std", config.latents_std,
                    config.latent_channels);
  config.sample_size = parse_sample_size(json);

  const auto& widths = config.block_out_channels;
  config.up_block_attention = parse_up_blocks(json, widths.size());
  require(!widths.empty() && widths.size() <= 8, Errc::corrupt_file,
          json.place(), "block_out_channels: expected 1 to 8 widths",
          "correct this file");
  for (const std::int64_t width : widths) {
    require(width % config.norm_num_groups == 0, Errc::corrupt_file,
            json.place(),
            "block_out_channels: got " + std::to_string(width) +
                ", expected a multiple of norm_num_groups " +
                std::to_string(config.norm_num_groups),
            "correct this file");
  }
  // What f32 has no number for would be divided by as 0.
  require(static_cast<float>(config.scaling_factor) != 0.0F, Errc::corrupt_file,
          json.place(), "scaling_factor: got 0, expected another number",
          "correct this file");
  return config;
}

AutoencoderKl::AutoencoderKl(ExecContext& ctx, AutoencoderKlConfig config,
                             DType compute, WeightSource& source)
    : config_(std::move(config)),
      compute_(compute),
      weights_(std::make_unique<const AutoencoderKlWeights>(
          load_autoencoder_kl_weights(ctx, config_, compute, source))) {}

AutoencoderKl::~AutoencoderKl() = default;

std::size_t AutoencoderKl::parameter_bytes() const noexcept {
  return weights_->num_bytes;
}

std::uint64_t AutoencoderKl::weights_hash() const noexcept {
  return weights_->hash;
}

void AutoencoderKl::check(const Tensor& latents, const Tensor& out) const {
  const std::int64_t scale = config_.scale();
  const bool fits = latents.shape().rank() == 3 && out.shape().rank() == 3 &&
                    latents.dim(0) == config_.latent_channels &&
                    out.dim(0) == config_.out_channels &&
                    out.dim(1) == scale * latents.dim(1) &&
                    out.dim(2) == scale * latents.dim(2) &&
                    latents.dtype() == DType::f32 && out.dtype() == DType::f32;
  if (!fits || latents.empty()) {
    throw Error(Errc::shape_mismatch, "autoencoder",
                "got latents " + to_string(latents.shape()) + " and picture " +
                    to_string(out.shape()) + ", expected " +
                    std::to_string(config_.latent_channels) +
                    " latent channels and a picture " + std::to_string(scale) +
                    " times as wide, f32");
  }
}

void AutoencoderKl::decode(ExecContext& ctx, const Tensor& latents,
                           Tensor& out) const {
  check(latents, out);
  const std::int64_t height = latents.dim(1);
  const std::int64_t width = latents.dim(2);
  const Workspace::Scope scope(ctx.workspace());
  // A few thousand numbers, on the host on every device.
  const Tensor on_host = kernels::on_host(ctx, latents);
  Tensor denormalised({1, config_.latent_channels, height, width}, DType::f32);
  Tensor plane = denormalised.item(0);
  denormalise(config_, on_host, plane);
  const Tensor scaled = kernels::on_device(ctx, denormalised);
  Tensor x = ctx.workspace().take({1, height, width, config_.latent_channels},
                                  compute_);
  kernels::to_channels_last(ctx, scaled, x);
  const Tensor pixels = decode_tokens(ctx, x);  // [1, H, W, 3] f32
  Tensor picture = out.reshape({1, out.dim(0), out.dim(1), out.dim(2)});
  if (out.device() == ctx.device()) {
    kernels::to_channels_first(ctx, pixels, picture);
    return;
  }
  Tensor made = ctx.workspace().take(picture.shape(), DType::f32);
  kernels::to_channels_first(ctx, pixels, made);
  kernels::copy(ctx, made, picture);
}

Tensor AutoencoderKl::decode_tokens(ExecContext& ctx, Tensor x) const {
  const AutoencoderKlWeights& weights = *weights_;
  Decoder decoder(ctx, config_, compute_);
  PingPong hidden(ctx.workspace(), most_elements(config_, x.dim(1) * x.dim(2)),
                  compute_);
  if (weights.post_quant) {
    Tensor& out = hidden.next({1, x.dim(1), x.dim(2), x.dim(3)});
    kernels::conv2d(ctx, x, *weights.post_quant, out);
    x = out;
  }
  const Shape deepest{1, x.dim(1), x.dim(2), config_.block_out_channels.back()};
  kernels::conv2d(ctx, x, weights.conv_in, hidden.next(deepest));
  hidden.apply(deepest, [&](const Tensor& from, Tensor& to) {
    decoder.resnet(from, weights.mid_1, to);
  });
  if (weights.mid_attention) {
    decoder.attention(*weights.mid_attention, hidden.now());
  }
  ctx.tick();
  hidden.apply(deepest, [&](const Tensor& from, Tensor& to) {
    decoder.resnet(from, weights.mid_2, to);
  });
  for (const VaeUpBlock& block : weights.up_blocks) {
    const std::int64_t channels = block.resnets[0].conv1.out_channels();
    const Tensor now = hidden.now();
    const Shape small{1, now.dim(1), now.dim(2), channels};
    const Shape large{1, 2 * now.dim(1), 2 * now.dim(2), channels};
    for (std::size_t i = 0; i < block.resnets.size(); ++i) {
      hidden.apply(small, [&](const Tensor& from, Tensor& to) {
        decoder.resnet(from, block.resnets[i], to);
      });
      if (!block.attentions.empty()) {
        decoder.attention(block.attentions[i], hidden.now());
      }
      ctx.tick();
    }
    if (block.upsampler) {
      hidden.apply(large, [&](const Tensor& from, Tensor& to) {
        kernels::upsample_nearest2x(ctx, from, to);
      });
      hidden.apply(large, [&](const Tensor& from, Tensor& to) {
        kernels::conv2d(ctx, from, *block.upsampler, to);
      });
      ctx.tick(0);
    }
  }
  // The last norm's activation is SiLU whatever act_fn says.
  Tensor& top = hidden.now();
  decoder.norm(top, weights.norm_out, Activation::silu, top);
  Tensor pixels = ctx.workspace().take(
      {1, top.dim(1), top.dim(2), config_.out_channels}, DType::f32);
  kernels::conv2d(ctx, top, weights.conv_out, pixels);
  return pixels;
}

std::uint64_t autoencoder_kl_required_bytes(const AutoencoderKlConfig& config,
                                            DType compute, std::int64_t height,
                                            std::int64_t width) {
  const auto element = static_cast<std::int64_t>(size_of(compute));
  std::int64_t parameters = 0;
  for (const TensorSpec& spec : autoencoder_kl_tensors(config)) {
    parameters += spec.shape.num_elements();
  }
  // Two buffers between layers, and what one layer takes.
  const std::int64_t activations = 2 * most_elements(config, height * width) +
                                   inner_elements(config, height * width);
  const std::int64_t scale = config.scale();
  return static_cast<std::uint64_t>((parameters + activations) * element +
                                    height * width * scale * scale *
                                        config.out_channels * 8);
}

ThreadScratch autoencoder_kl_scratch(const AutoencoderKlConfig& config,
                                     DType compute, std::int64_t height,
                                     std::int64_t width) {
  const auto& widths = config.block_out_channels;
  std::int64_t pixels = height * width;
  ThreadScratch scratch;
  scratch.add_convolution(9 * std::ranges::max(widths), compute);
  if (config.mid_block_add_attention) {
    scratch.add_attention(pixels, widths.back(), compute);
  }
  for (std::size_t i = 0; i < config.up_block_attention.size(); ++i) {
    if (config.attends_in_up_block(i)) {
      scratch.add_attention(pixels, widths[widths.size() - 1 - i], compute);
    }
    pixels *= 4;
  }
  return scratch;
}

}  // namespace troupe::models
