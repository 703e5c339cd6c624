#include "models/text/clip_text_weights.h"

#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::models {

ClipTextConfig parse_clip_text_config(const Json& json, bool has_projection) {
  require(!json.has("text_config"), Errc::unsupported, json.place(),
          "text_config: this is the configuration of a whole CLIPModel, "
          "expected that of its text half",
          "save the text encoder alone (CLIPTextModel.save_pretrained)");
  require(json.boolean("is_causal", true), Errc::unsupported, json.place(),
          "is_causal: got false, expected true",
          "tokens of CLIP see those before them");
  ClipTextConfig config;
  read_fields(json, config);
  config.activation = text_activation(json, "hidden_act",
                                      json.string("hidden_act", "quick_gelu"));
  config.projection_dim =
      has_projection ? json.integer("projection_dim", 512, 1, 65536) : 0;
  if (config.hidden_size % config.num_heads != 0) {
    throw Error(Errc::corrupt_file, json.place(),
                "hidden_size: got " + std::to_string(config.hidden_size) +
                    ", expected a multiple of " +
                    std::to_string(config.num_heads) + " heads",
                "correct this file");
  }
  return config;
}

namespace {

struct ClipNormSpec {
  TensorSpec weight, bias;
};

struct ClipLayerSpec {
  ClipNormSpec norm_1, norm_2;
  LinearTensors qkv, out, mlp_up, mlp_down;
};

/// The names of all tensors, with `prefix` in front of all but the projection.
struct ClipTextSpec {
  ClipTextSpec(const ClipTextConfig& config, std::string_view prefix);
  /// All tensors in reading order.
  [[nodiscard]] std::vector<TensorSpec> all() const;

  TensorSpec tokens, positions, projection;
  std::vector<ClipLayerSpec> layers;
  ClipNormSpec final_norm;
};

ClipNormSpec norm_spec(const std::string& name, std::int64_t width) {
  return {{name + ".weight", Shape{width}}, {name + ".bias", Shape{width}}};
}

LinearTensors clip_linear(const std::string& name,
                          std::vector<const char*> parts, std::int64_t out,
                          std::int64_t in) {
  LinearTensors tensors;
  for (const char* part : parts) {
    tensors.weights.push_back({name + part + ".weight", Shape{out, in}});
    tensors.biases.push_back({name + part + ".bias", Shape{out}});
  }
  return tensors;
}

ClipTextSpec::ClipTextSpec(const ClipTextConfig& config,
                           std::string_view prefix) {
  const std::string root(prefix);
  const std::int64_t width = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  tokens = {root + "embeddings.token_embedding.weight",
            Shape{config.vocab_size, width}};
  positions = {root + "embeddings.position_embedding.weight",
               Shape{config.max_tokens, width}};
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string name = root + "encoder.layers." + std::to_string(i) + ".";
    layers.push_back(
        {norm_spec(name + "layer_norm1", width),
         norm_spec(name + "layer_norm2", width),
         clip_linear(name + "self_attn.", {"q_proj", "k_proj", "v_proj"}, width,
                     width),
         clip_linear(name + "self_attn.", {"out_proj"}, width, width),
         clip_linear(name + "mlp.", {"fc1"}, inner, width),
         clip_linear(name + "mlp.", {"fc2"}, width, inner)});
  }
  final_norm = norm_spec(root + "final_layer_norm", width);
  if (config.projection_dim > 0) {
    projection = {"text_projection.weight",
                  Shape{config.projection_dim, width}};
  }
}

std::vector<TensorSpec> ClipTextSpec::all() const {
  std::vector<TensorSpec> specs = {tokens, positions};
  const auto add = [&](const std::vector<TensorSpec>& more) {
    specs.insert(specs.end(), more.begin(), more.end());
  };
  for (const ClipLayerSpec& layer : layers) {
    add({layer.norm_1.weight, layer.norm_1.bias, layer.norm_2.weight,
         layer.norm_2.bias});
    for (const LinearTensors* linear :
         {&layer.qkv, &layer.out, &layer.mlp_up, &layer.mlp_down}) {
      add(linear->weights);
      add(linear->biases);
    }
  }
  add({final_norm.weight, final_norm.bias});
  if (!projection.name.empty()) {
    add({projection});
  }
  return specs;
}

ClipTextSpec spec_of(const ClipTextConfig& config, const WeightSource& source) {
  const ClipTextSpec spec(config, kClipTextPrefix);
  return source.has(spec.tokens.name) ? spec : ClipTextSpec(config, "");
}

}  // namespace

std::vector<TensorSpec> clip_text_tensors(const ClipTextConfig& config,
                                          std::string_view prefix) {
  return ClipTextSpec(config, prefix).all();
}

ClipTextWeights load_clip_text_weights(ExecContext& ctx,
                                       const ClipTextConfig& config,
                                       std::optional<DType> compute,
                                       WeightSource& source) {
  EncoderLoader loader(ctx, compute, source);
  const ClipTextSpec spec = spec_of(config, source);
  source.check(spec.all());
  const auto norm = [&](const ClipNormSpec& tensors) -> NormWeights {
    Tensor weight = loader.vector(tensors.weight);
    return {std::move(weight), loader.vector(tensors.bias)};
  };
  ClipTextWeights weights;
  weights.tokens = loader.table(spec.tokens);
  weights.positions = loader.host(spec.positions);
  for (const ClipLayerSpec& layer : spec.layers) {
    ClipTextLayer& to = weights.layers.emplace_back();
    to.norm_1 = norm(layer.norm_1);
    to.norm_2 = norm(layer.norm_2);
    to.qkv = loader.linear(layer.qkv);
    to.out = loader.linear(layer.out);
    to.mlp_up = loader.linear(layer.mlp_up);
    to.mlp_down = loader.linear(layer.mlp_down);
  }
  weights.final_norm = norm(spec.final_norm);
  if (config.projection_dim > 0) {
    weights.projection = loader.linear({{spec.projection}, {}});
  }
  weights.hash = hash_of(config, source.hash());
  ctx.synchronize();  // every context of the device may read them
  return weights;
}

}  // namespace troupe::models
