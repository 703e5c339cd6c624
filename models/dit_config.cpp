#include "models/dit_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

struct FeedForward {
  std::string_view name;
  kernels::Activation activation;
  bool gated;
};

/// Source: diffusers models/attention.py, FeedForward. (Its GEGLU is gated by
/// the exact GELU, and "geglu-approximate" is not gated at all.)
constexpr std::array<FeedForward, 6> kFeedForwards = {{
    {"gelu-approximate", kernels::Activation::gelu_tanh, false},
    {"gelu", kernels::Activation::gelu_erf, false},
    {"geglu", kernels::Activation::gelu_erf, true},
    {"geglu-approximate", kernels::Activation::gelu_sigmoid, false},
    {"swiglu", kernels::Activation::silu, true},
    {"linear-silu", kernels::Activation::silu, false},
}};

void parse_feed_forward(const Json& json, DitConfig& config) {
  const std::string name = json.string("activation_fn", "gelu-approximate");
  std::string names;
  for (const FeedForward& row : kFeedForwards) {
    if (row.name == name) {
      config.activation = row.activation;
      config.gated_mlp = row.gated;
      return;
    }
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(
      Errc::unsupported, json.place(),
      "activation_fn: got " + in_quotes(name) + ", expected one of " + names,
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
  parse_feed_forward(json, config);
  config.norm_elementwise_affine =
      json.boolean("norm_elementwise_affine", false);
  config.num_classes =
      json.integer("num_embeds_ada_norm", 1000, 1, 100'000'000);
  config.norm_eps = static_cast<float>(json.number("norm_eps", 1e-5));
  // Added to a variance, whose root is divided by.
  require(config.norm_eps >= 0, Errc::corrupt_file, json.place(),
          "norm_eps: got a negative number, expected 0 or more",
          "correct this file");

  if (config.width() % 4 != 0) {
    throw Error(Errc::unsupported, json.place(),
                "width: got " + std::to_string(config.width()) +
                    " (heads times head dim), expected a multiple of 4",
                "correct this file");
  }
  const std::int64_t tokens_per_side = config.sample_size / config.patch_size;
  if (config.sample_size % config.patch_size != 0 ||
      tokens_per_side > DitConfig::kMostTokens / tokens_per_side) {
    throw Error(Errc::unsupported, json.place(),
                "sample_size: got " + std::to_string(config.sample_size) +
                    ", expected a multiple of patch_size " +
                    std::to_string(config.patch_size) + " with at most " +
                    std::to_string(DitConfig::kMostTokens) + " tokens",
                "correct this file");
  }
  const std::int64_t channels =
      std::max(config.in_channels, config.out_channels);
  if (channels >
      DitConfig::kMostElements / (config.sample_size * config.sample_size)) {
    throw Error(
        Errc::unsupported, json.place(),
        "sample_size: got " + std::to_string(config.sample_size) + " with " +
            std::to_string(channels) + " channels, expected at most " +
            std::to_string(DitConfig::kMostElements) + " numbers per image",
        "correct this file");
  }
  return config;
}

}  // namespace troupe::models
