#include "models/pixart/pixart_config.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

constexpr const char* kOnlySigma = "only PixArt-Sigma checkpoints can be run";

bool is_null(const Json& json, std::string_view key) {
  const std::vector<std::string> keys = json.keys();
  return !json.has(key) && std::ranges::find(keys, key) != keys.end();
}

void check_kind(const Json& json, std::int64_t sample_size) {
  const ValueCheck check(json, kOnlySigma);
  const bool is_old = json.string("_class_name", "") == "Transformer2DModel";
  const std::string norm =
      json.string("norm_type", is_old ? "layer_norm" : "ada_norm_single");
  check(norm == "ada_norm_single", "norm_type", in_quotes(norm),
        "ada_norm_single");
  const std::string attention = json.string("attention_type", "default");
  check(attention == "default", "attention_type", in_quotes(attention),
        "default");
  check(!json.boolean("norm_elementwise_affine", false),
        "norm_elementwise_affine", "false");
  const char* const conditions = "use_additional_conditions";
  ValueCheck(
      json,
      "PixArt-alpha's embeddings of the picture's size cannot be run yet")(
      !json.boolean(conditions, sample_size == 128), conditions,
      json.has(conditions) ? "true"
                           : "nothing, which is true for this sample_size",
      "false");
}

/// The projected prompt is as wide as the network.
void check_prompt(const Json& json, const PixArtConfig& config) {
  const ValueCheck check(json, kOnlySigma);
  check(json.has("caption_channels"), "caption_channels", "nothing",
        "a number");
  const std::int64_t width =
      json.integer("cross_attention_dim", 1152, 1, 1 << 20);
  check(!is_null(json, "cross_attention_dim"), "cross_attention_dim",
        "a number");
  ValueCheck(json, "correct this file")(
      width == config.width(), "cross_attention_dim", std::to_string(width),
      std::to_string(config.width()) + " (heads times head dim)");
}

}  // namespace

PixArtConfig parse_pixart_config(const Json& json) {
  PixArtConfig config;
  read_fields(json, config);
  check_kind(json, config.sample_size);
  // As many come out as go in where it is null, not where it is missing.
  if (is_null(json, "out_channels")) {
    config.out_channels = config.in_channels;
  }
  config.feed_forward = parse_feed_forward(json);
  if (!json.has("interpolation_scale")) {
    config.interpolation_scale =
        static_cast<double>(std::max<std::int64_t>(config.sample_size / 64, 1));
  }
  // Positions are divided by it.
  require(config.interpolation_scale > 0, Errc::corrupt_file, json.place(),
          "interpolation_scale: got no positive number", "correct this file");
  config.block_shape().check(json);
  check_prompt(json, config);
  config.grid().check(json);
  return config;
}

}  // namespace troupe::models
