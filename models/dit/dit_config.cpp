#include "models/dit/dit_config.h"

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
  read_fields(json, config);
  if (!json.has("out_channels")) {
    config.out_channels = config.in_channels;
  }
  config.feed_forward = parse_feed_forward(json);

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
