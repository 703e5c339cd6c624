#include "models/vae/autoencoder_kl.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "kernels/elementwise.h"
#include "kernels/image_part.h"
#include "kernels/linear.h"
#include "kernels/patchify.h"
#include "models/layers/activation_names.h"
#include "models/layers/ping_pong.h"
#include "models/layers/resnet.h"
#include "models/network/layer_reader.h"
#include "models/vae/tiled_decode.h"

// C latent channels, h and w latent sides; inside, [1, pixels, channels].

namespace troupe::models {
namespace {

using kernels::Activation;
using kernels::ImagePart;

constexpr float kEps = 1e-6F;
constexpr const char* kNoDecoder = "this autoencoder cannot be run";

/// Which up blocks attend; empty where none does.
std::vector<bool> parse_up_blocks(const Json& json, std::size_t widths) {
  std::vector<bool> attends;
  for (const std::string& type : json.string_list("up_block_types")) {
    const bool is_plain = type == "UpDecoderBlock2D";
    ValueCheck(json, kNoDecoder)(is_plain || type == "AttnUpDecoderBlock2D",
                                 "up_block_types", in_quotes(type),
                                 "UpDecoderBlock2D or AttnUpDecoderBlock2D");
    attends.push_back(!is_plain);
  }
  require(!json.has("up_block_types") || attends.size() == widths,
          Errc::unsupported, json.place(),
          "up_block_types: expected one for each of block_out_channels",
          kNoDecoder);
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

struct VaeAttention {
  NormWeights norm;
  kernels::PackedLinear qkv, out;
};

struct VaeUpBlock {
  std::vector<ResnetWeights> resnets;
  std::vector<VaeAttention> attentions;  ///< none, or one after each resnet
  std::optional<kernels::PackedConv2d> upsampler;
};

/// The tensors of attention, under the names that `source` has: files of 2022
/// call the projections query, key, value and proj_attn.
AttentionSpec attention_of(const std::string& name, std::int64_t width,
                           const WeightSource* source) {
  const auto layer = [&](const char* now, const char* old) {
    const bool is_old =
        source != nullptr && !source->has(name + now + ".weight");
    LinearSpec spec = linear_spec(name + (is_old ? old : now), width, width);
    spec.weight.may_be_convolution = true;
    return spec;
  };
  return {layer("to_q", "query"), layer("to_k", "key"), layer("to_v", "value"),
          layer("to_out.0", "proj_attn")};
}

VaeAttention read_attention(LayerReader& reader, const std::string& name,
                            std::int64_t width) {
  VaeAttention attention;
  attention.norm = reader.norm(name + "group_norm", width);
  const AttentionSpec spec = attention_of(name, width, reader.source());
  attention.qkv = reader.fused({spec.q, spec.k, spec.v});
  attention.out = reader.linear(spec.out);
  return attention;
}

VaeUpBlock read_up_block(LayerReader& reader, const AutoencoderKlConfig& config,
                         std::size_t index, std::int64_t out, std::int64_t in) {
  const std::string name = "decoder.up_blocks." + std::to_string(index) + ".";
  VaeUpBlock block;
  for (std::int64_t i = 0; i <= config.layers_per_block; ++i) {
    block.resnets.push_back(
        read_resnet(reader, name + "resnets." + std::to_string(i) + ".", out,
                    i == 0 ? in : out));
    if (config.attends_in_up_block(index)) {
      block.attentions.push_back(read_attention(
          reader, name + "attentions." + std::to_string(i) + ".", out));
    }
  }
  if (index + 1 < config.block_out_channels.size()) {
    block.upsampler = reader.conv(name + "upsamplers.0.conv", out, out, 3);
  }
  return block;
}

/// The name that files of 2022 give a tensor, or its own.
std::string legacy_name(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4>
      kRenamed = {{{".to_q.", ".query."},
                   {".to_k.", ".key."},
                   {".to_v.", ".value."},
                   {".to_out.0.", ".proj_attn."}}};
  for (const auto& [now, old] : kRenamed) {
    if (const auto at = name.find(now); at != std::string::npos) {
      return std::string(name).replace(at, now.size(), old);
    }
  }
  return name;
}

/// The specs under the names that `source` has.
std::vector<TensorSpec> with_legacy_names(std::vector<TensorSpec> specs,
                                          const WeightSource& source) {
  for (TensorSpec& spec : specs) {
    std::string legacy = legacy_name(spec.name);
    if (legacy != spec.name && !source.has(spec.name) && source.has(legacy)) {
      spec.name = std::move(legacy);
    }
  }
  return specs;
}

/// Runs the decoder's layers over this rank's pixels, on workspace memory.
class DecoderPass {
 public:
  /// latents: the sides at which it begins.
  DecoderPass(ImagePass& layers, const AutoencoderKlConfig& config,
              DType compute, const ImagePart& latents)
      : image_(layers),
        config_(config),
        sides_(latents),
        hidden_(layers.ctx().workspace(), most_elements(), compute) {}

  /// Of what it now has.
  [[nodiscard]] const ImagePart& sides() const noexcept { return sides_; }
  [[nodiscard]] PingPong& hidden() noexcept { return hidden_; }
  [[nodiscard]] GroupNormStyle style(Activation activation) const {
    return {config_.norm_num_groups, kEps, activation};
  }

  void resnet(const ResnetWeights& block) {
    hidden_.apply(own_pixels(block.conv1.out_channels()),
                  [&](const Tensor& from, Tensor& to) {
                    run_resnet(image_, block, style(config_.activation), from,
                               sides_, {}, to);
                  });
  }

  /// x += attention over all pixels, one head as wide as x.
  void attention(const VaeAttention& block) {
    ExecContext& ctx = image_.ctx();
    const Workspace::Scope scope(ctx.workspace());
    Tensor& x = hidden_.now();
    const std::int64_t width = x.dim(2);
    Tensor normed = ctx.workspace().take(x.shape(), x.dtype());
    image_.norm(x, sides_, block.norm, style(Activation::none), normed);
    ImagePass::Shared qkv =
        image_.share(1, sides_, 3 * width, x.dtype(), {width, 3 * width});
    kernels::WholeItem whole = image_.whole(sides_);
    kernels::linear(ctx, normed, block.qkv, Activation::none, qkv.own, whole);
    image_.meet(sides_);
    whole.row_width = 3 * width;
    Tensor attended = ctx.workspace().take(x.shape(), x.dtype());
    kernels::attention(ctx, {qkv.own, 0}, {qkv.all, width},
                       {qkv.all, 2 * width}, 1, width, attended, whole);
    kernels::linear(ctx, attended, block.out, Activation::none, normed, whole);
    kernels::add(ctx, normed, x);
  }

  void upsample(const kernels::PackedConv2d& layer) {
    const ImagePart large =
        ImagePart::whole(2 * sides_.height, 2 * sides_.width);
    image_.upsample_conv(hidden_, sides_, layer, large);
    sides_ = large;
  }

  [[nodiscard]] Shape own_pixels(std::int64_t channels) const {
    return {1, image_.own(sides_).pixels.size(), channels};
  }

 private:
  /// Of the largest tensor between two layers.
  [[nodiscard]] std::int64_t most_elements() const {
    // Rows above and below that a convolution reads, and parts of rows.
    constexpr std::int64_t kRowsAround = 4;
    const auto pixels = [&](const ImagePart& image) {
      return std::min(image.pixels.size(), image_.own(image).pixels.size() +
                                               kRowsAround * image.width);
    };
    const auto& widths = config_.block_out_channels;
    // Every rank has all latents.
    std::int64_t most = sides_.pixels.size() * config_.latent_channels;
    most = std::max(most, pixels(sides_) * widths.back());
    ImagePart image = sides_;
    for (std::size_t i = widths.size() - 1; i > 0; --i) {
      image = ImagePart::whole(2 * image.height, 2 * image.width);
      most = std::max(most, pixels(image) * widths[i]);
    }
    return std::max(most, pixels(image) * widths[0]);
  }

  ImagePass& image_;
  const AutoencoderKlConfig& config_;
  ImagePart sides_;
  PingPong hidden_;
};

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
  config.activation = parse_activation(json, kNoDecoder);
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

struct AutoencoderKl::Weights {
  Weights(LayerReader& reader, const AutoencoderKlConfig& config) {
    const auto& widths = config.block_out_channels;
    const std::int64_t latent = config.latent_channels;
    std::int64_t width = widths.back();
    if (config.use_post_quant_conv) {
      post_quant = reader.conv("post_quant_conv", latent, latent, 1);
    }
    conv_in = reader.conv("decoder.conv_in", width, latent, 3);
    mid_1 = read_resnet(reader, "decoder.mid_block.resnets.0.", width, width);
    if (config.mid_block_add_attention) {
      mid_attention =
          read_attention(reader, "decoder.mid_block.attentions.0.", width);
    }
    mid_2 = read_resnet(reader, "decoder.mid_block.resnets.1.", width, width);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::int64_t next = widths[widths.size() - 1 - i];
      up_blocks.push_back(read_up_block(reader, config, i, next, width));
      width = next;
    }
    norm_out = reader.norm("decoder.conv_norm_out", width);
    conv_out = reader.conv("decoder.conv_out", config.out_channels, width, 3);
  }

  std::optional<kernels::PackedConv2d> post_quant;
  kernels::PackedConv2d conv_in;
  ResnetWeights mid_1, mid_2;
  std::optional<VaeAttention> mid_attention;
  std::vector<VaeUpBlock> up_blocks;
  NormWeights norm_out;
  kernels::PackedConv2d conv_out;
};

AutoencoderKl::AutoencoderKl(LayerReader& reader, AutoencoderKlConfig config,
                             DType compute)
    : config_(std::move(config)),
      compute_(compute),
      weights_(std::make_shared<const Weights>(reader, config_)),
      parameter_bytes_(reader.num_bytes()) {}

AutoencoderKl::AutoencoderKl(ExecContext& ctx, AutoencoderKlConfig config,
                             DType compute, WeightSource& source)
    : config_(std::move(config)), compute_(compute) {
  source.check(with_legacy_names(autoencoder_kl_tensors(config_), source));
  LayerReader reader(ctx, compute, source);
  weights_ = std::make_shared<const Weights>(reader, config_);
  parameter_bytes_ = reader.num_bytes();
  hash_ = hash_of(config_, source.hash());
  ctx.synchronize();  // every context of the device may read them
}

AutoencoderKl::~AutoencoderKl() = default;

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

void AutoencoderKl::decode(ImagePass& layers, const Tensor& latents,
                           std::int64_t tile, Tensor& out) const {
  return tile > 0 ? decode_in_tiles(layers, *this, latents, tile, out)
                  : decode(layers, latents, out);
}

void AutoencoderKl::decode(ExecContext& ctx, const Tensor& latents,
                           Tensor& out) const {
  ImagePass alone(ctx);
  decode(alone, latents, out);
}

void AutoencoderKl::decode(ImagePass& layers, const Tensor& latents,
                           Tensor& out) const {
  check(latents, out);
  const std::int64_t height = latents.dim(1);
  const std::int64_t width = latents.dim(2);
  const bool is_divided = layers.divides(ImagePart::whole(height, width));
  if (!is_divided && !layers.is_first()) {
    return;
  }
  ExecContext& ctx = layers.ctx();
  const Workspace::Scope scope(ctx.workspace());
  // A few thousand numbers, on the host on every device.
  const Tensor on_host = kernels::on_host(ctx, latents);
  Tensor denormalised({1, config_.latent_channels, height, width}, DType::f32);
  Tensor plane = denormalised.item(0);
  denormalise(config_, on_host, plane);
  const Tensor scaled = kernels::on_device(ctx, denormalised);
  Tensor x = ctx.workspace().take({1, height, width, config_.latent_channels},
                                  compute_);
  Tensor pixels = ctx.workspace().take(
      {1, out.dim(1), out.dim(2), config_.out_channels}, DType::f32);
  kernels::to_channels_last(ctx, scaled, x);
  if (is_divided) {
    decode_pixels(ctx, layers, x, pixels);  // the hosts meet
  } else {
    const std::uint64_t key[] = {static_cast<std::uint64_t>(height),
                                 static_cast<std::uint64_t>(width)};
    ImagePass alone(ctx);
    ctx.replay(weights_, key, [&] { decode_pixels(ctx, alone, x, pixels); });
  }
  if (!layers.is_first()) {
    return;
  }
  Tensor picture = out.reshape({1, out.dim(0), out.dim(1), out.dim(2)});
  if (out.device() == ctx.device()) {
    kernels::to_channels_first(ctx, pixels, picture);
    return;
  }
  Tensor made = ctx.workspace().take(picture.shape(), DType::f32);
  kernels::to_channels_first(ctx, pixels, made);
  kernels::copy(ctx, made, picture);
}

void AutoencoderKl::decode_pixels(ExecContext& ctx, ImagePass& layers,
                                  const Tensor& latents, Tensor& out) const {
  const Workspace::Scope scope(ctx.workspace());
  const Weights& weights = *weights_;
  const ImagePart image = ImagePart::whole(latents.dim(1), latents.dim(2));
  DecoderPass decoder(layers, config_, compute_, image);
  Tensor x = latents.reshape({1, image.pixels.size(), latents.dim(3)});
  // Every rank has all latents.
  if (weights.post_quant) {
    Tensor& scaled = decoder.hidden().next(x.shape());
    kernels::conv2d(ctx, x, image, *weights.post_quant, scaled, image);
    x = scaled;
  }
  kernels::conv2d(ctx, x, image, weights.conv_in,
                  decoder.hidden().next(
                      decoder.own_pixels(config_.block_out_channels.back())),
                  layers.own(image));
  decoder.resnet(weights.mid_1);
  if (weights.mid_attention) {
    decoder.attention(*weights.mid_attention);
  }
  ctx.tick();
  decoder.resnet(weights.mid_2);
  for (const VaeUpBlock& block : weights.up_blocks) {
    for (std::size_t i = 0; i < block.resnets.size(); ++i) {
      decoder.resnet(block.resnets[i]);
      if (!block.attentions.empty()) {
        decoder.attention(block.attentions[i]);
      }
      ctx.tick();
    }
    if (block.upsampler) {
      decoder.upsample(*block.upsampler);
      ctx.tick(0);
    }
  }
  // The last norm's activation is SiLU whatever act_fn says.
  const GroupNormStyle style = decoder.style(Activation::silu);
  Tensor& top = decoder.hidden().now();
  Tensor all = out.reshape({1, out.dim(1) * out.dim(2), out.dim(3)});
  const bool is_divided = layers.divides(decoder.sides());
  Tensor pixels =
      is_divided ? ctx.workspace().take({1, top.dim(1), out.dim(3)}, DType::f32)
                 : all;
  layers.norm_conv_over(top, decoder.sides(), weights.norm_out, style,
                        weights.conv_out, pixels);
  const Tensor gathered = layers.gather(pixels, decoder.sides());
  if (is_divided && !gathered.empty()) {
    kernels::copy(ctx, gathered, all);
  }
}

std::vector<TensorSpec> autoencoder_kl_tensors(
    const AutoencoderKlConfig& config) {
  std::vector<TensorSpec> specs;
  LayerReader reader(specs);
  (void)AutoencoderKl(reader, config, DType::f32);
  return specs;
}

std::vector<std::string> autoencoder_kl_names(
    const AutoencoderKlConfig& config) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : autoencoder_kl_tensors(config)) {
    std::string legacy = legacy_name(spec.name);
    if (legacy != spec.name) {
      names.push_back(std::move(legacy));
    }
    names.push_back(spec.name);
  }
  return names;
}

std::uint64_t autoencoder_kl_weights_hash(ExecContext& ctx,
                                          const AutoencoderKlConfig& config,
                                          WeightSource& source) {
  source.check(with_legacy_names(autoencoder_kl_tensors(config), source));
  LayerReader reader(ctx, source);
  (void)AutoencoderKl(reader, config, DType::f32);
  return hash_of(config, source.hash());
}

namespace {

/// A CPU has no f16.
std::shared_ptr<Meter> meter_for(DType compute) {
  return std::make_shared<Meter>(compute == DType::f16 ? DeviceKind::cuda
                                                       : DeviceKind::cpu);
}

}  // namespace

DecodeCosts autoencoder_kl_costs(const AutoencoderKlConfig& config,
                                 DType compute, std::int64_t height,
                                 std::int64_t width) {
  ExecContext ctx(meter_for(compute));
  LayerReader reader(ctx, compute, WeightPlacement::resident);
  const AutoencoderKl decoder(reader, config, compute);
  const std::int64_t scale = config.scale();
  Tensor picture({config.out_channels, scale * height, scale * width},
                 DType::f32);
  decoder.decode(ctx,
                 ctx.empty({config.latent_channels, height, width}, DType::f32),
                 picture);
  return {.flops = ctx.meter().flops(),
          .bytes = ctx.workspace().peak_bytes() + picture.num_bytes(),
          .scratch = {ctx.meter().attention_thread_bytes(),
                      ctx.meter().convolution_thread_bytes()}};
}

std::uint64_t autoencoder_kl_weights_bytes(const AutoencoderKlConfig& config,
                                           DType compute) {
  ExecContext ctx(meter_for(compute));
  LayerReader reader(ctx, compute, WeightPlacement::resident);
  return AutoencoderKl(reader, config, compute).parameter_bytes();
}

namespace {

class AutoencoderKlDescription final : public DecoderDescription {
 public:
  explicit AutoencoderKlDescription(const Json& config)
      : config_(parse_autoencoder_kl_config(config)),
        has_quant_conv_(config.boolean("use_quant_conv", true)) {}

  [[nodiscard]] std::string config_keys() const override {
    // The other keys are the encoder's, or change nothing here.
    return keys_of<AutoencoderKlConfig>(
        "down_block_types force_upcast in_channels use_quant_conv");
  }
  [[nodiscard]] std::int64_t latent_channels() const override {
    return config_.latent_channels;
  }
  [[nodiscard]] std::int64_t scale() const override { return config_.scale(); }
  [[nodiscard]] Shape pixel_shape(const Shape& latents) const override {
    return config_.pixel_shape(latents);
  }
  [[nodiscard]] std::int64_t tile_side() const override {
    const std::int64_t side = config_.tile_side();
    return side < kSmallestTile ? 0 : side;
  }
  [[nodiscard]] DecodeCosts costs(const Shape& latents, DType compute,
                                  std::int64_t tile) const override {
    return tiled_costs(config_, compute, latents, tile);
  }
  [[nodiscard]] std::uint64_t weights_bytes(DType compute) const override {
    return autoencoder_kl_weights_bytes(config_, compute);
  }
  [[nodiscard]] ClassTensors tensors() const override;
  [[nodiscard]] std::unique_ptr<Decoder> load(
      ExecContext& ctx, DType compute, WeightSource& weights) const override {
    return std::make_unique<AutoencoderKl>(ctx, config_, compute, weights);
  }
  [[nodiscard]] std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const override {
    return autoencoder_kl_weights_hash(ctx, config_, weights);
  }

 private:
  AutoencoderKlConfig config_;
  bool has_quant_conv_;
};

/// The encoder is never read: names of modules identify its tensors.
ClassTensors AutoencoderKlDescription::tensors() const {
  ClassTensors tensors{
      .names = autoencoder_kl_names(config_),
      .prefixes = {"encoder.conv_in.", "encoder.conv_norm_out.",
                   "encoder.conv_out.", "encoder.mid_block."}};
  for (std::size_t i = 0; i < config_.block_out_channels.size(); ++i) {
    tensors.prefixes.push_back("encoder.down_blocks." + std::to_string(i) +
                               ".");
  }
  if (has_quant_conv_) {
    tensors.prefixes.emplace_back("quant_conv.");
  }
  return tensors;
}

std::unique_ptr<DecoderDescription> describe_autoencoder_kl(
    const Json& config) {
  return std::make_unique<AutoencoderKlDescription>(config);
}

}  // namespace

extern constinit const DecoderRow kAutoencoderKl{
    .class_name = "AutoencoderKL", .describe = describe_autoencoder_kl};

}  // namespace troupe::models
