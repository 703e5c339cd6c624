#include "models/dit_description.h"

#include <algorithm>
#include <string>

#include "kernels/core/error.h"
#include "models/dit.h"
#include "models/dit_weights.h"

namespace troupe::models {
namespace {

// On the CPU a product is one call per row: more at once only take memory. A
// GPU wants many. Counted, not timed: a product of DiT-XL/2 into its width is
// 160 tiles of 128×256 with 4,096 tokens, 61 % of two rounds of an H100's 132
// processors, and 640 with 16,384, 97 % of five.
constexpr std::int64_t kHostTokensAtOnce = 4096;
constexpr std::int64_t kDeviceTokensAtOnce = 16384;
/// What a sampler keeps of a row beside the network's output: latents before
/// and after the step, the network's input, noise, and up to four remembered
/// tensors.
constexpr std::int64_t kLatentsPerRow = 8;

/// Elements of the matrices of a block that offloading moves.
std::int64_t block_modulation(const DitConfig& config) {
  return 6 * config.width() * config.width();
}
std::int64_t block_products(const DitConfig& config) {
  return 4 * config.width() * config.width() +
         (config.gated_mlp ? 3 : 2) * config.width() * config.mlp_width();
}

std::int64_t block_parameters(const DitConfig& config) {
  const std::int64_t width = config.width();
  const std::int64_t biases =
      6 * width + (config.attention_bias ? 3 * width : 0) + width +
      (config.gated_mlp ? 2 : 1) * config.mlp_width() + width;
  return block_modulation(config) + block_products(config) + biases;
}

/// Shift, scale and gate of every block, shift and scale of the output.
std::int64_t modulation_width(const DitConfig& config) {
  return (6 * config.num_layers + 2) * config.width();
}

/// Of a token: f32 products in front of what rounds them. On a GPU the one that
/// is still to be added to the residual stream, and the one in front of an
/// activation that cuBLASLt has not.
std::int64_t product_bytes(const DitConfig& config, DType compute,
                           DeviceKind kind) {
  if (kind == DeviceKind::cpu) {
    return 0;
  }
  const bool is_apart = compute != DType::f32 && !config.gated_mlp &&
                        config.activation != kernels::Activation::gelu_tanh;
  return 4 * (config.width() + (is_apart ? config.mlp_width() : 0));
}

}  // namespace

SegmentRange checked_segment(const DitConfig& config, SegmentRange segment) {
  const int num_layers = static_cast<int>(config.num_layers);
  if (segment.end < 0) {
    segment.end = num_layers;
  }
  if (segment.begin < 0 || segment.begin >= segment.end ||
      segment.end > num_layers) {
    throw Error(Errc::invalid_argument, "dit",
                "segment: got blocks " + std::to_string(segment.begin) +
                    " to " + std::to_string(segment.end) +
                    ", expected a part of 0 to " + std::to_string(num_layers),
                "use fewer segments");
  }
  return segment;
}

std::int64_t dit_rows_at_once(std::int64_t num_tokens,
                              DeviceKind kind) noexcept {
  const std::int64_t tokens =
      kind == DeviceKind::cpu ? kHostTokensAtOnce : kDeviceTokensAtOnce;
  return std::max<std::int64_t>(1, tokens / num_tokens);
}

DenoiserInfo DitDescription::info(const Shape& latents, DType compute) const {
  const auto width = static_cast<double>(config_.width());
  const auto tokens = static_cast<double>(config_.num_tokens(latents));
  const auto patch =
      static_cast<double>(config_.patch_size * config_.patch_size);
  const BlockInfo block{
      .flops = 2.0 * width * width *
                   (6.0 + (config_.gated_mlp ? 16.0 : 12.0) * tokens) +
               4.0 * tokens * tokens * width,
      .parameter_bytes = static_cast<std::size_t>(block_parameters(config_)) *
                         size_of(compute)};
  DenoiserInfo info;
  info.class_name = "DiTTransformer2DModel";
  info.latent_shape = latents;
  info.out_channels = config_.out_channels;
  info.guided_channels = std::min(config_.in_channels, config_.out_channels);
  info.branch_order = BranchOrder::cond_uncond;
  info.num_classes = config_.num_classes;
  info.compute = compute;
  info.blocks.assign(static_cast<std::size_t>(config_.num_layers), block);
  info.boundary_bytes =
      static_cast<std::size_t>(tokens * width) * sizeof(float);
  info.bytes_per_timestep =
      static_cast<std::size_t>(modulation_width(config_)) * sizeof(float);
  info.embed_flops =
      2.0 * tokens * width * patch * static_cast<double>(config_.in_channels);
  info.finish_flops =
      4.0 * width * width +
      2.0 * tokens * width * patch * static_cast<double>(config_.out_channels);
  return info;
}

/// Diffusers' unpatchify takes squares alone.
Shape DitDescription::nearest_latents(const Shape& wanted) const {
  const std::int64_t patch = config_.patch_size;
  const std::int64_t side = std::max(wanted[1], wanted[2]);
  std::int64_t patches = std::max<std::int64_t>((side + patch / 2) / patch, 1);
  const std::int64_t most =
      std::min(DitConfig::kMostTokens,
               DitConfig::kMostElements /
                   (patch * patch *
                    std::max(config_.in_channels, config_.out_channels)));
  while (patches > most / patches) {
    patches = patches > 2 * most ? 2 * most : patches - 1;
  }
  return {config_.in_channels, patches * patch, patches * patch};
}

NetworkMemory DitDescription::memory(const Shape& latents, DType compute,
                                     DeviceKind kind, WeightPlacement placement,
                                     SegmentRange segment) const {
  segment = checked_segment(config_, segment);
  const auto element = static_cast<std::int64_t>(size_of(compute));
  std::int64_t parameters = 0;
  std::int64_t largest = 0;
  for (const TensorSpec& spec : dit_tensors(config_, segment)) {
    const bool repeated = spec.name.find("norm1.emb.") != std::string::npos &&
                          spec.name.rfind("transformer_blocks.0.", 0) != 0 &&
                          segment.begin == 0;
    parameters += repeated ? 0 : spec.shape.num_elements();
    largest = std::max(largest, spec.shape.num_elements());
  }
  NetworkMemory memory;
  if (placement == WeightPlacement::offloaded) {
    parameters -= (segment.end - segment.begin) *
                  (block_modulation(config_) + block_products(config_));
    memory.visiting_bytes =
        2 * size_of(compute) *
        static_cast<std::uint64_t>(
            std::max(block_modulation(config_), block_products(config_)));
  }
  const std::int64_t tokens = config_.num_tokens(latents);
  const std::int64_t positions = tokens * config_.width() * 4;
  memory.weights_bytes = static_cast<std::uint64_t>(parameters * element +
                                                    largest * 4 + positions);
  // The residual stream; normed, qkv and mlp, before its gate too.
  const std::int64_t gated = config_.gated_mlp ? 2 * config_.mlp_width() : 0;
  const std::int64_t per_token = config_.width() * (4 + 8 * element) +
                                 gated * element +
                                 product_bytes(config_, compute, kind);
  // Images side by side and their patches, going in and coming out; and a
  // row of modulation.
  const std::int64_t pixels = latents[1] * latents[2];
  const std::int64_t per_pixel =
      config_.in_channels * (4 + element) + config_.out_channels * 4;
  memory.rows_at_once = dit_rows_at_once(tokens, kind);
  memory.pass_bytes = static_cast<std::uint64_t>(
      tokens * per_token + pixels * per_pixel + modulation_width(config_) * 4);
  memory.row_bytes = static_cast<std::uint64_t>(
      pixels * 4 *
      (kLatentsPerRow * config_.in_channels + config_.out_channels));
  return memory;
}

std::vector<NetworkFact> DitDescription::facts() const {
  return {{"blocks", config_.num_layers},
          {"width", config_.width()},
          {"heads", config_.num_attention_heads},
          {"tokens", config_.num_tokens(latent_shape())}};
}

ClassTensors DitDescription::tensors() const {
  ClassTensors tensors;
  for (TensorSpec& spec : dit_tensors(config_, checked_segment(config_, {}))) {
    tensors.names.push_back(std::move(spec.name));
  }
  return tensors;
}

std::unique_ptr<DenoiserDescription> DitDescription::with_blocks(
    int blocks) const {
  DitConfig config = config_;
  config.num_layers = blocks;
  return std::make_unique<DitDescription>(config);
}

std::unique_ptr<Denoiser> DitDescription::load(
    ExecContext& ctx, DType compute, WeightSource& weights,
    SegmentRange segment, WeightPlacement placement) const {
  return std::make_unique<Dit>(ctx, config_, segment, compute, weights,
                               placement);
}

std::uint64_t DitDescription::weights_hash(ExecContext& ctx,
                                           WeightSource& weights) const {
  return dit_weights_hash(ctx, config_, checked_segment(config_, {}), weights);
}

std::string_view DitDescription::config_keys() const {
  return "activation_fn attention_bias attention_head_dim attention_type "
         "caption_channels cross_attention_dim double_self_attention dropout "
         "in_channels interpolation_scale norm_elementwise_affine norm_eps "
         "norm_num_groups norm_type num_attention_heads num_embeds_ada_norm "
         "num_layers num_vector_embeds only_cross_attention out_channels "
         "patch_size sample_size upcast_attention use_additional_conditions "
         "use_linear_projection";
}

namespace {

std::unique_ptr<DenoiserDescription> describe(const Json& config) {
  return std::make_unique<DitDescription>(parse_dit_config(config));
}

}  // namespace

extern constinit const DenoiserRow kDit{.class_name = "DiTTransformer2DModel",
                                        .describe = describe};
/// Before diffusers 0.29; parse_dit_config checks that it is a DiT.
extern constinit const DenoiserRow kOldDit{.class_name = "Transformer2DModel",
                                           .describe = describe};

}  // namespace troupe::models
