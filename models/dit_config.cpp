#include "models/dit_config.h"

#include <string>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

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
  config.feed_forward = parse_feed_forward(json);
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
  config.grid().check(json);
  return config;
}

}  // namespace troupe::models
