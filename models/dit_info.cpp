#include "models/dit_info.h"

#include <algorithm>
#include <string>

#include "kernels/core/error.h"
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

/// Of a token: products that are only rounded behind their epilogue. On a GPU
/// the one that is added to the residual stream, and the one in front of an
/// activation that cuBLASLt has not.
std::int64_t product_bytes(const DitConfig& config, DType compute,
                           DeviceKind kind) {
  if (kind == DeviceKind::cpu) {
    return 0;
  }
  const bool is_apart = compute != DType::f32 && !config.gated_mlp &&
                        config.activation != kernels::Activation::gelu_tanh;
  return 4 * (is_apart ? config.mlp_width() : config.width());
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

DenoiserInfo dit_info(const DitConfig& config, DType compute) {
  const auto width = static_cast<double>(config.width());
  const auto tokens = static_cast<double>(config.num_tokens());
  const auto patch = static_cast<double>(config.patch_size * config.patch_size);
  const BlockInfo block{
      .flops = 2.0 * width * width *
                   (6.0 + (config.gated_mlp ? 16.0 : 12.0) * tokens) +
               4.0 * tokens * tokens * width,
      .parameter_bytes = static_cast<std::size_t>(block_parameters(config)) *
                         size_of(compute)};
  DenoiserInfo info;
  info.class_name = "DiTTransformer2DModel";
  info.latent_shape = {config.in_channels, config.sample_size,
                       config.sample_size};
  info.out_channels = config.out_channels;
  info.guided_channels = std::min(config.in_channels, config.out_channels);
  info.branch_order = BranchOrder::cond_uncond;
  info.num_classes = config.num_classes;
  info.compute = compute;
  info.blocks.assign(static_cast<std::size_t>(config.num_layers), block);
  info.bytes_per_timestep =
      static_cast<std::size_t>((6 * config.num_layers + 2) * config.width()) *
      sizeof(float);
  info.embed_flops =
      2.0 * tokens * width * patch * static_cast<double>(config.in_channels);
  info.finish_flops =
      4.0 * width * width +
      2.0 * tokens * width * patch * static_cast<double>(config.out_channels);
  return info;
}

std::int64_t dit_rows_at_once(const DitConfig& config,
                              DeviceKind kind) noexcept {
  const std::int64_t tokens =
      kind == DeviceKind::cpu ? kHostTokensAtOnce : kDeviceTokensAtOnce;
  return std::max<std::int64_t>(1, tokens / config.num_tokens());
}

std::uint64_t dit_visiting_bytes(const DitConfig& config, DType compute) {
  return 2 * size_of(compute) *
         static_cast<std::uint64_t>(
             std::max(block_modulation(config), block_products(config)));
}

std::uint64_t dit_required_bytes(const DitConfig& config, SegmentRange segment,
                                 DType compute, std::int64_t rows,
                                 WeightPlacement placement, DeviceKind kind) {
  segment = checked_segment(config, segment);
  const auto element = static_cast<std::int64_t>(size_of(compute));
  std::int64_t parameters = 0;
  std::int64_t largest = 0;
  for (const TensorSpec& spec : dit_tensors(config, segment)) {
    const bool repeated = spec.name.find("norm1.emb.") != std::string::npos &&
                          spec.name.rfind("transformer_blocks.0.", 0) != 0 &&
                          segment.begin == 0;
    parameters += repeated ? 0 : spec.shape.num_elements();
    largest = std::max(largest, spec.shape.num_elements());
  }
  if (placement == WeightPlacement::offloaded) {
    parameters -= (segment.end - segment.begin) *
                  (block_modulation(config) + block_products(config));
  }
  const std::int64_t positions = config.num_tokens() * config.width() * 4;
  // The residual stream; normed, qkv and mlp, before its gate too.
  const std::int64_t gated = config.gated_mlp ? 2 * config.mlp_width() : 0;
  const std::int64_t per_token = config.width() * (4 + 8 * element) +
                                 gated * element +
                                 product_bytes(config, compute, kind);
  // Images side by side and their patches, going in and coming out; and a
  // row of modulation.
  const std::int64_t pixels = config.sample_size * config.sample_size;
  const std::int64_t per_pixel =
      config.in_channels * (4 + element) + config.out_channels * 4;
  const std::int64_t at_once = std::min(rows, dit_rows_at_once(config, kind));
  return static_cast<std::uint64_t>(
      parameters * element + largest * 4 + positions +
      at_once * (config.num_tokens() * per_token + pixels * per_pixel +
                 (6 * config.num_layers + 2) * config.width() * 4) +
      rows * pixels * 4 *
          (kLatentsPerRow * config.in_channels + config.out_channels));
}

}  // namespace troupe::models
