#include "models/dit_description.h"

#include <algorithm>
#include <string>

#include "kernels/core/error.h"
#include "models/dit.h"
#include "models/dit_weights.h"
#include "models/transformer_keys.h"

namespace troupe::models {
namespace {

/// Elements of the matrices of a block that offloading moves.
std::int64_t block_modulation(const DitConfig& config) {
  return 6 * config.width() * config.width();
}
std::int64_t block_products(const DitConfig& config) {
  return config.block_shape().product_parameters();
}

std::int64_t block_parameters(const DitConfig& config) {
  const std::int64_t width = config.width();
  const std::int64_t biases = 6 * width +
                              (config.attention_bias ? 3 * width : 0) + width +
                              config.block_shape().mlp_up_width() + width;
  return block_modulation(config) + block_products(config) + biases;
}

/// Shift, scale and gate of every block, shift and scale of the output.
std::int64_t modulation_width(const DitConfig& config) {
  return (6 * config.num_layers + 2) * config.width();
}

}  // namespace

DenoiserInfo DitDescription::info(const Shape& latents, DType compute) const {
  const auto width = static_cast<double>(config_.width());
  const auto tokens = static_cast<double>(config_.grid().num_tokens(latents));
  const auto patch =
      static_cast<double>(config_.patch_size * config_.patch_size);
  const BlockInfo block{
      .flops = 2.0 * width * width *
                   (6.0 + (config_.feed_forward.gated ? 16.0 : 12.0) * tokens) +
               4.0 * tokens * tokens * width,
      .parameter_bytes = static_cast<std::size_t>(block_parameters(config_)) *
                         size_of(compute),
      .hidden_bytes = static_cast<std::size_t>(tokens * width) * sizeof(float)};
  DenoiserInfo info;
  info.class_name = "DiTTransformer2DModel";
  info.latent_shape = latents;
  info.out_channels = config_.out_channels;
  info.guided_channels = std::min(config_.in_channels, config_.out_channels);
  info.branch_order = BranchOrder::cond_uncond;
  info.num_classes = config_.num_classes;
  info.compute = compute;
  info.blocks.assign(static_cast<std::size_t>(config_.num_layers), block);
  info.bytes_per_timestep =
      static_cast<std::size_t>(modulation_width(config_)) * sizeof(float);
  info.embed_flops =
      2.0 * tokens * width * patch * static_cast<double>(config_.in_channels);
  info.finish_flops =
      4.0 * width * width +
      2.0 * tokens * width * patch * static_cast<double>(config_.out_channels);
  return info;
}

NetworkMemory DitDescription::memory(const Shape& latents, DType compute,
                                     DeviceKind kind, WeightPlacement placement,
                                     SegmentRange segment) const {
  segment = checked_segment("dit", config_.num_layers, segment);
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
  const std::int64_t tokens = config_.grid().num_tokens(latents);
  const std::int64_t positions = tokens * config_.width() * 4;
  memory.weights_bytes = static_cast<std::uint64_t>(parameters * element +
                                                    largest * 4 + positions);
  // Images side by side and their patches, going in and coming out; and a
  // row of modulation.
  const std::int64_t pixels = latents[1] * latents[2];
  const std::int64_t per_pixel =
      config_.in_channels * (4 + element) + config_.out_channels * 4;
  memory.rows_at_once = models::rows_at_once(tokens, kind);
  memory.pass_bytes = static_cast<std::uint64_t>(
      tokens * config_.block_shape().bytes_per_token(compute, kind) +
      pixels * per_pixel + modulation_width(config_) * 4);
  memory.row_bytes = static_cast<std::uint64_t>(
      pixels * 4 *
      (NetworkMemory::kLatentsPerRow * config_.in_channels +
       config_.out_channels));
  if (kind == DeviceKind::cpu) {
    memory.scratch.add_attention(tokens, config_.block_shape().head_dim,
                                 compute);
  }
  return memory;
}

NetworkFacts DitDescription::facts() const {
  return {.blocks = config_.num_layers,
          .width = config_.width(),
          .heads = config_.num_attention_heads,
          .tokens = config_.grid().num_tokens(latent_shape())};
}

ClassTensors DitDescription::tensors() const {
  ClassTensors tensors;
  for (TensorSpec& spec :
       dit_tensors(config_, checked_segment("dit", config_.num_layers, {}))) {
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
  return dit_weights_hash(
      ctx, config_, checked_segment("dit", config_.num_layers, {}), weights);
}

std::string_view DitDescription::config_keys() const {
  return kTransformerKeys;
}

namespace {

std::unique_ptr<DenoiserDescription> describe_dit(const Json& config) {
  return std::make_unique<DitDescription>(parse_dit_config(config));
}

}  // namespace

extern constinit const DenoiserRow kDit{.class_name = "DiTTransformer2DModel",
                                        .describe = describe_dit};

}  // namespace troupe::models
