#include "models/pixart_description.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/core/noise.h"
#include "models/pixart.h"
#include "models/pixart_conditioner.h"
#include "models/pixart_weights.h"
#include "models/transformer_keys.h"

namespace troupe::models {
namespace {

/// What PixArt-Sigma's pipeline cuts prompts to.
constexpr std::int64_t kPromptTokens = 300;

/// Elements of the matrices of a block that offloading moves.
std::int64_t block_products(const PixArtConfig& config) {
  return config.block_shape().product_parameters() +
         2 * config.width() * config.width();
}
std::int64_t block_prompt(const PixArtConfig& config) {
  return 2 * config.width() * config.width();
}

std::int64_t block_parameters(const PixArtConfig& config) {
  const std::int64_t width = config.width();
  const std::int64_t biases = (config.attention_bias ? 6 * width : 0) +
                              3 * width + config.block_shape().mlp_up_width();
  return block_products(config) + block_prompt(config) + biases + 6 * width;
}

std::int64_t modulation_width(const PixArtConfig& config) {
  return (6 * config.num_layers + 2) * config.width();
}

}  // namespace

DenoiserInfo PixArtDescription::info(const Shape& latents,
                                     DType compute) const {
  const auto width = static_cast<double>(config_.width());
  const auto tokens = static_cast<double>(config_.grid().num_tokens(latents));
  const auto patch =
      static_cast<double>(config_.patch_size * config_.patch_size);
  const BlockInfo block{
      .flops =
          2.0 * tokens * static_cast<double>(block_products(config_)) +
          4.0 * tokens * (tokens + static_cast<double>(kPromptTokens)) * width,
      .parameter_bytes = static_cast<std::size_t>(block_parameters(config_)) *
                         size_of(compute),
      .hidden_bytes = static_cast<std::size_t>(tokens * width) * sizeof(float)};
  DenoiserInfo info;
  info.class_name = "PixArtTransformer2DModel";
  info.latent_shape = latents;
  info.out_channels = config_.out_channels;
  info.guided_channels = std::min(config_.in_channels, config_.out_channels);
  info.branch_order = BranchOrder::uncond_cond;
  info.num_classes = 0;
  info.compute = compute;
  info.blocks.assign(static_cast<std::size_t>(config_.num_layers), block);
  // Six D of all blocks, twice the embedding.
  info.bytes_per_timestep =
      static_cast<std::size_t>(8 * config_.width()) * sizeof(float);
  // Keys and values of cross attention, in every block.
  info.bytes_per_prompt =
      static_cast<std::size_t>(2 * kPromptTokens * config_.width() *
                               config_.num_layers) *
      size_of(compute);
  info.embed_flops =
      2.0 * tokens * width * patch * static_cast<double>(config_.in_channels);
  info.finish_flops =
      2.0 * tokens * width * patch * static_cast<double>(config_.out_channels);
  return info;
}

Condition PixArtDescription::any_condition(const PictureIds& /*ids*/) const {
  Tensor embeds({kPromptTokens, config_.caption_channels}, DType::f32);
  fill_normal({}, embeds);
  Condition condition;
  condition.add("prompt_embeds", std::move(embeds));
  return condition;
}

void PixArtDescription::check_condition(const Condition& condition) const {
  (void)checked_prompt(config_, condition);
}

NetworkMemory PixArtDescription::memory(const Shape& latents, DType compute,
                                        DeviceKind kind,
                                        WeightPlacement placement,
                                        SegmentRange segment) const {
  segment = checked_segment("pixart", config_.num_layers, segment);
  const auto element = static_cast<std::int64_t>(size_of(compute));
  std::int64_t parameters = 0;
  std::int64_t largest = 0;
  for (const TensorSpec& spec : pixart_tensors(config_, segment)) {
    parameters += spec.shape.num_elements();
    largest = std::max(largest, spec.shape.num_elements());
  }
  NetworkMemory memory;
  if (placement == WeightPlacement::offloaded) {
    parameters -= (segment.end - segment.begin) *
                  (block_products(config_) + block_prompt(config_));
    memory.visiting_bytes = 2 * size_of(compute) *
                            static_cast<std::uint64_t>(block_products(config_));
  }
  const std::int64_t tokens = config_.grid().num_tokens(latents);
  const std::int64_t tables =
      (tokens * config_.width() + modulation_width(config_)) * 4;
  memory.weights_bytes =
      static_cast<std::uint64_t>(parameters * element + largest * 4 + tables);
  // Images side by side and their patches, going in and coming out; and a
  // row of modulation, with what is added to it.
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

NetworkFacts PixArtDescription::facts() const {
  return {.blocks = config_.num_layers,
          .width = config_.width(),
          .heads = config_.num_attention_heads,
          .tokens = config_.grid().num_tokens(latent_shape()),
          .caption_width = config_.caption_channels};
}

ClassTensors PixArtDescription::tensors() const {
  ClassTensors tensors;
  for (TensorSpec& spec : pixart_tensors(
           config_, checked_segment("pixart", config_.num_layers, {}))) {
    tensors.names.push_back(std::move(spec.name));
  }
  return tensors;
}

std::unique_ptr<DenoiserDescription> PixArtDescription::with_blocks(
    int blocks) const {
  PixArtConfig config = config_;
  config.num_layers = blocks;
  return std::make_unique<PixArtDescription>(config);
}

std::unique_ptr<Denoiser> PixArtDescription::load(
    ExecContext& ctx, DType compute, WeightSource& weights,
    SegmentRange segment, WeightPlacement placement) const {
  return std::make_unique<PixArt>(ctx, config_, segment, compute, weights,
                                  placement);
}

std::uint64_t PixArtDescription::weights_hash(ExecContext& ctx,
                                              WeightSource& weights) const {
  return pixart_weights_hash(
      ctx, config_, checked_segment("pixart", config_.num_layers, {}), weights);
}

std::string_view PixArtDescription::config_keys() const {
  return kTransformerKeys;
}

namespace {

std::unique_ptr<DenoiserDescription> describe_pixart(const Json& config) {
  return std::make_unique<PixArtDescription>(parse_pixart_config(config));
}

}  // namespace

extern constinit const DenoiserRow kPixArt{
    .class_name = "PixArtTransformer2DModel", .describe = describe_pixart};

}  // namespace troupe::models
