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
  ValueCheck(json, "only DiT checkpoints can be run")(
      norm == "ada_norm_zero", "norm_type", in_quotes(norm), "ada_norm_zero");
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
  config.block_shape().check(json);
  config.grid().check(json);
  return config;
}

}  // namespace troupe::models
