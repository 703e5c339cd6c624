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

void check_word(const Json& json, const char* key, std::string_view expected,
                std::string_view missing) {
  const std::string got = json.string(key, missing);
  if (got != expected) {
    throw Error(Errc::unsupported, json.place(),
                std::string(key) + ": got " + in_quotes(got) + ", expected " +
                    std::string(expected),
                kOnlySigma);
  }
}

void check_kind(const Json& json, std::int64_t sample_size) {
  const bool is_old = json.string("_class_name", "") == "Transformer2DModel";
  check_word(json, "norm_type", "ada_norm_single",
             is_old ? "layer_norm" : "ada_norm_single");
  check_word(json, "attention_type", "default", "default");
  require(!json.boolean("norm_elementwise_affine", false), Errc::unsupported,
          json.place(), "norm_elementwise_affine: got true, expected false",
          kOnlySigma);
  const bool by_size = sample_size == 128;
  require(!json.boolean("use_additional_conditions", by_size),
          Errc::unsupported, json.place(),
          "use_additional_conditions: got " +
              std::string(json.has("use_additional_conditions")
                              ? "true"
                              : "nothing, which is true for this sample_size") +
              ", expected false",
          "PixArt-alpha's embeddings of the picture's size cannot be run yet");
}

/// The projected prompt is as wide as the network.
void check_prompt(const Json& json, const PixArtConfig& config) {
  require(json.has("caption_channels"), Errc::unsupported, json.place(),
          "caption_channels: got nothing, expected a number", kOnlySigma);
  const std::int64_t width =
      json.integer("cross_attention_dim", 1152, 1, 1 << 20);
  require(!is_null(json, "cross_attention_dim"), Errc::unsupported,
          json.place(), "cross_attention_dim: got null, expected a number",
          kOnlySigma);
  if (width != config.width()) {
    throw Error(Errc::unsupported, json.place(),
                "cross_attention_dim: got " + std::to_string(width) +
                    ", expected " + std::to_string(config.width()) +
                    " (heads times head dim)",
                "correct this file");
  }
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
  if (config.width() % 4 != 0) {
    throw Error(Errc::unsupported, json.place(),
                "width: got " + std::to_string(config.width()) +
                    " (heads times head dim), expected a multiple of 4",
                "correct this file");
  }
  check_prompt(json, config);
  config.grid().check(json);
  return config;
}

}  // namespace troupe::models
