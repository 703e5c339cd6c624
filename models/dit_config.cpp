#include "models/dit_config.h"

#include <algorithm>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 16;
/// Of one image's latents or output; 1 GiB of f32. No tensor of the checkpoint
/// bounds sample_size, so this does.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

kernels::Activation parse_activation(const Json& json) {
  const std::string name = json.string("activation_fn", "gelu-approximate");
  if (name == "gelu-approximate") {
    return kernels::Activation::gelu_tanh;
  }
  if (name == "gelu") {
    return kernels::Activation::gelu_erf;
  }
  if (name == "linear-silu") {
    return kernels::Activation::silu;
  }
  throw Error(Errc::unsupported, json.place(),
              "activation_fn: got " + in_quotes(name) +
                  ", expected gelu-approximate, gelu or linear-silu",
              "this network cannot be run");
}

void check_kind(const Json& json, bool old_class) {
  // The old class's own default is another norm, which is not a DiT; its other
  // missing keys take the new class's defaults, as in diffusers.
  const std::string norm =
      json.string("norm_type", old_class ? "layer_norm" : "ada_norm_zero");
  if (norm != "ada_norm_zero") {
    throw Error(
        Errc::unsupported, json.place(),
        "norm_type: got " + in_quotes(norm) + ", expected ada_norm_zero",
        "only DiT checkpoints can be run");
  }
  require(!json.boolean("norm_elementwise_affine", false), Errc::unsupported,
          json.place(), "norm_elementwise_affine: got true, expected false",
          "this network cannot be run");
}

}  // namespace

DitConfig parse_dit_config(const Json& json) {
  check_kind(json, json.string("_class_name", "") == "Transformer2DModel");
  DitConfig config;
  config.num_attention_heads = json.integer("num_attention_heads", 16, 1, 1024);
  config.attention_head_dim = json.integer("attention_head_dim", 72, 1, 1024);
  config.in_channels = json.integer("in_channels", 4, 1, 4096);
  config.out_channels =
      json.integer("out_channels", config.in_channels, 1, 4096);
  config.num_layers = json.integer("num_layers", 28, 1, 4096);
  config.attention_bias = json.boolean("attention_bias", true);
  config.sample_size = json.integer("sample_size", 32, 1, 65536);
  config.patch_size = json.integer("patch_size", 2, 1, 256);
  config.activation = parse_activation(json);
  config.num_classes =
      json.integer("num_embeds_ada_norm", 1000, 1, 100'000'000);
  config.norm_eps = static_cast<float>(json.number("norm_eps", 1e-5));

  if (config.width() % 4 != 0) {
    throw Error(Errc::unsupported, json.place(),
                "width: got " + std::to_string(config.width()) +
                    " (heads times head dim), expected a multiple of 4",
                "correct this file");
  }
  if (config.sample_size % config.patch_size != 0 ||
      config.tokens_per_side() > kMostTokens / config.tokens_per_side()) {
    throw Error(Errc::unsupported, json.place(),
                "sample_size: got " + std::to_string(config.sample_size) +
                    ", expected a multiple of patch_size " +
                    std::to_string(config.patch_size) + " with at most " +
                    std::to_string(kMostTokens) + " tokens",
                "correct this file");
  }
  const std::int64_t channels =
      std::max(config.in_channels, config.out_channels);
  if (channels > kMostElements / (config.sample_size * config.sample_size)) {
    throw Error(Errc::unsupported, json.place(),
                "sample_size: got " + std::to_string(config.sample_size) +
                    " with " + std::to_string(channels) +
                    " channels, expected at most " +
                    std::to_string(kMostElements) + " numbers per image",
                "correct this file");
  }
  return config;
}

}  // namespace troupe::models
