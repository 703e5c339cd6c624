#include "models/text/t5_weights.h"

#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::models {
namespace {

/// "relu", "gated-silu", …; "gated-gelu" means the tanh form, for the sake of
/// old files. Newer files say both halves under keys of their own.
void parse_feed_forward(const Json& json, T5Config& config) {
  constexpr std::string_view kGated = "gated-";
  const std::string name = json.string("feed_forward_proj", "relu");
  const bool gated = name.starts_with(kGated);
  const std::string activation = gated ? name.substr(kGated.size()) : name;
  config.gated = json.boolean("is_gated_act", gated);
  const char* const key =
      json.has("dense_act_fn") ? "dense_act_fn" : "feed_forward_proj";
  config.activation = text_activation(
      json, key,
      json.string("dense_act_fn",
                  name == "gated-gelu" ? "gelu_new" : activation));
}

struct T5LayerSpec {
  TensorSpec norm_1, norm_2;
  LinearTensors qkv, out, mlp_up, mlp_down;
};

struct T5Spec {
  /// `tokens` is the name of the embedding table.
  T5Spec(const T5Config& config, std::string_view tokens);
  /// All tensors in reading order.
  [[nodiscard]] std::vector<TensorSpec> all() const;

  TensorSpec tokens, bias, final_norm;
  std::vector<T5LayerSpec> layers;
};

LinearTensors t5_linear(const std::string& name, std::vector<const char*> parts,
                        std::int64_t out, std::int64_t in) {
  LinearTensors tensors;
  for (const char* part : parts) {
    tensors.weights.push_back({name + part + ".weight", Shape{out, in}});
  }
  return tensors;
}

T5Spec::T5Spec(const T5Config& config, std::string_view token_name) {
  const std::int64_t width = config.d_model;
  const std::int64_t inner = config.attention_width();
  const auto block = [](std::int64_t i) {
    return "encoder.block." + std::to_string(i) + ".layer.";
  };
  tokens = {std::string(token_name), Shape{config.vocab_size, width}};
  bias = {block(0) + "0.SelfAttention.relative_attention_bias.weight",
          Shape{config.num_buckets, config.num_heads}};
  // activate_gated takes the activated half second: wi_0.
  const std::vector<const char*> up =
      config.gated ? std::vector<const char*>{"wi_1", "wi_0"}
                   : std::vector<const char*>{"wi"};
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string attention = block(i) + "0.";
    const std::string mlp = block(i) + "1.";
    layers.push_back(
        {{attention + "layer_norm.weight", Shape{width}},
         {mlp + "layer_norm.weight", Shape{width}},
         t5_linear(attention + "SelfAttention.", {"q", "k", "v"}, inner, width),
         t5_linear(attention + "SelfAttention.", {"o"}, width, inner),
         t5_linear(mlp + "DenseReluDense.", up, config.d_ff, width),
         t5_linear(mlp + "DenseReluDense.", {"wo"}, width, config.d_ff)});
  }
  final_norm = {"encoder.final_layer_norm.weight", Shape{width}};
}

std::vector<TensorSpec> T5Spec::all() const {
  std::vector<TensorSpec> specs = {tokens, bias};
  for (const T5LayerSpec& layer : layers) {
    specs.push_back(layer.norm_1);
    specs.push_back(layer.norm_2);
    for (const LinearTensors* linear :
         {&layer.qkv, &layer.out, &layer.mlp_up, &layer.mlp_down}) {
      specs.insert(specs.end(), linear->weights.begin(), linear->weights.end());
    }
  }
  specs.push_back(final_norm);
  return specs;
}

T5Spec spec_of(const T5Config& config, const WeightSource& source) {
  return {config,
          source.has(kT5TokenNames[0]) ? kT5TokenNames[0] : kT5TokenNames[1]};
}

}  // namespace

T5Config parse_t5_config(const Json& json) {
  require(!json.boolean("is_decoder", false), Errc::unsupported, json.place(),
          "is_decoder: got true, expected false",
          "tokens of an encoder see each other");
  T5Config config;
  read_fields(json, config);
  // The logarithm of their ratio is divided by.
  require(config.max_distance > config.num_buckets / 4, Errc::corrupt_file,
          json.place(),
          "relative_attention_max_distance: expected more than a quarter of "
          "relative_attention_num_buckets",
          "correct this file");
  parse_feed_forward(json, config);
  return config;
}

std::vector<TensorSpec> t5_tensors(const T5Config& config,
                                   std::string_view tokens) {
  return T5Spec(config, tokens).all();
}

T5Weights load_t5_weights(ExecContext& ctx, const T5Config& config,
                          std::optional<DType> compute, WeightSource& source) {
  EncoderLoader loader(ctx, compute, source);
  const T5Spec spec = spec_of(config, source);
  source.check(spec.all());
  T5Weights weights;
  weights.tokens = loader.table(spec.tokens);
  weights.bias = loader.host(spec.bias);
  for (const T5LayerSpec& layer : spec.layers) {
    T5Layer& to = weights.layers.emplace_back();
    to.norm_1 = loader.vector(layer.norm_1);
    to.norm_2 = loader.vector(layer.norm_2);
    to.qkv = loader.linear(layer.qkv);
    to.out = loader.linear(layer.out);
    to.mlp_up = loader.linear(layer.mlp_up);
    to.mlp_down = loader.linear(layer.mlp_down);
  }
  weights.final_norm = loader.vector(spec.final_norm);
  weights.hash = hash_of(config, source.hash());
  ctx.synchronize();  // every context of the device may read them
  return weights;
}

}  // namespace troupe::models
