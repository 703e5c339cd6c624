#include "models/text/t5_weights.h"

#include <bit>
#include <span>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"

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

/// A number with two names, of which `other` counts where it is there.
std::int64_t named_twice(const Json& json, const char* name, const char* other,
                         std::int64_t missing, std::int64_t most) {
  return json.integer(json.has(other) ? other : name, missing, 1, most);
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

std::uint64_t hash_of(const T5Config& config, std::uint64_t tensors) {
  const auto number = [](auto value) {
    return static_cast<std::uint64_t>(value);
  };
  const std::uint64_t parts[] = {tensors,
                                 number(config.vocab_size),
                                 number(config.d_model),
                                 number(config.d_kv),
                                 number(config.d_ff),
                                 number(config.num_layers),
                                 number(config.num_heads),
                                 number(config.num_buckets),
                                 number(config.max_distance),
                                 std::bit_cast<std::uint32_t>(config.eps),
                                 number(config.activation),
                                 number(config.gated)};
  return xxh3_64(std::as_bytes(std::span(parts)));
}

T5Config parse_t5_config(const Json& json) {
  require(!json.boolean("is_decoder", false), Errc::unsupported, json.place(),
          "is_decoder: got true, expected false",
          "tokens of an encoder see each other");
  T5Config config;
  config.vocab_size = json.integer("vocab_size", 32128, 1, 10'000'000);
  config.d_model = named_twice(json, "d_model", "hidden_size", 512, 65536);
  config.d_kv = named_twice(json, "d_kv", "head_dim", 64, 1024);
  config.d_ff = json.integer("d_ff", 2048, 1, 1 << 20);
  config.num_layers =
      named_twice(json, "num_layers", "num_hidden_layers", 6, 4096);
  config.num_heads =
      named_twice(json, "num_heads", "num_attention_heads", 8, 1024);
  config.num_buckets =
      json.integer("relative_attention_num_buckets", 32, 4, 65536);
  config.max_distance =
      json.integer("relative_attention_max_distance", 128, 1, 1 << 20);
  config.eps = static_cast<float>(json.number("layer_norm_epsilon", 1e-6));
  require(config.eps >= 0, Errc::corrupt_file, json.place(),
          "layer_norm_epsilon: got a negative number, expected 0 or more",
          "correct this file");
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
