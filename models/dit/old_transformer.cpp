// Transformer2DModel: what the configurations of DiT and PixArt say that were
// written before diffusers 0.29.

#include <string>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/description.h"
#include "models/dit/dit.h"
#include "models/dit/transformer_keys.h"
#include "models/pixart/pixart.h"

namespace troupe::models {
namespace {

/// As diffusers resolves it: by the kind of norm. Other missing keys take the
/// newer class's defaults.
std::unique_ptr<DenoiserDescription> describe(const Json& config) {
  const std::string norm = config.string("norm_type", "layer_norm");
  if (norm == "ada_norm_zero") {
    return models::describe(parse_dit_config(config));
  }
  if (norm == "ada_norm_single") {
    return models::describe(parse_pixart_config(config));
  }
  throw Error(Errc::unsupported, config.place(),
              "norm_type: got " + in_quotes(norm) +
                  ", expected ada_norm_zero (DiT) or ada_norm_single (PixArt)",
              "only checkpoints of DiT and PixArt-Sigma can be run");
}

}  // namespace

std::string transformer_keys() {
  // They change nothing here, or the parsers take one value alone.
  return keys_of<DitConfig, PixArtConfig>(
      "attention_type cross_attention_dim double_self_attention dropout "
      "norm_num_groups norm_type num_vector_embeds only_cross_attention "
      "upcast_attention use_additional_conditions use_linear_projection");
}

extern constinit const DenoiserRow kOldTransformer{
    .class_name = "Transformer2DModel", .describe = describe};

}  // namespace troupe::models
