// T5EncoderModel of transformers: the encoder of T5 (Raffel et al. 2020,
// arXiv:1910.10683), in the gated form of version 1.1 or in the first one.
// Source: transformers models/t5/modeling_t5.py.

#include "models/text/t5.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/copy.h"
#include "kernels/norm.h"
#include "models/network/layer_reader.h"
#include "models/text/encoder_parts.h"
#include "models/text/text_encoder.h"

// N tokens, D width, H heads, A = H · d_kv, F width of the MLP, V size of the
// vocabulary.

namespace troupe::models {
namespace t5 {
namespace {

using Config = T5Config;

constexpr const char* kPlace = "t5_encoder";
/// Biases of lengths that were asked for are kept up to so many bytes, and the
/// last one always.
constexpr std::size_t kMostBiasBytes = std::size_t{64} << 20U;
/// Files may have the embedding table under either name, or under both.
constexpr std::string_view kTokenNames[] = {"shared.weight",
                                            "encoder.embed_tokens.weight"};

/// "relu", "gated-silu", …; "gated-gelu" means the tanh form, for the sake of
/// old files. Newer files say both halves under keys of their own.
void parse_feed_forward(const Json& json, Config& config) {
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

/// Reads config.json of T5EncoderModel.
/// Errors: Errc::corrupt_file; Errc::unsupported.
Config parse(const Json& json) {
  require(!json.boolean("is_decoder", false), Errc::unsupported, json.place(),
          "is_decoder: got true, expected false",
          "tokens of an encoder see each other");
  Config config;
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

TextEncoderFacts facts_of(const Config& config) {
  return {.width = config.d_model,
          .vocab_size = config.vocab_size,
          .max_tokens = Config::kMostTokens,
          .num_layers = config.num_layers};
}

struct Layer {
  Tensor norm_1, norm_2;         // [D] f32
  kernels::PackedLinear qkv;     // D → 3A: queries, keys, values
  kernels::PackedLinear out;     // A → D
  kernels::PackedLinear mlp_up;  // D → F, gated: 2F, the activated half last
  kernels::PackedLinear mlp_down;  // F → D
};

struct Weights {
  Tensor tokens;  // [V, D] on the host, as stored
  Tensor bias;    // [buckets, H] f32 on the host
  std::vector<Layer> layers;
  Tensor final_norm;  // [D] f32
};

/// `tokens`: the name of the embedding table.
Weights read_weights(LayerReader& reader, const Config& config,
                     std::string_view tokens) {
  const std::int64_t width = config.d_model;
  const std::int64_t inner = config.attention_width();
  Weights weights;
  weights.tokens =
      reader.host_table({std::string(tokens), {config.vocab_size, width}});
  weights.bias = reader.host_table(
      {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
       {config.num_buckets, config.num_heads}},
      /*as_f32=*/true);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string block = "encoder.block." + std::to_string(i) + ".layer.";
    const auto linear = [&](const char* name, std::int64_t out,
                            std::int64_t in) {
      return linear_spec(block + name, out, in, false);
    };
    Layer& layer = weights.layers.emplace_back();
    layer.norm_1 = reader.table({block + "0.layer_norm.weight", {width}});
    layer.norm_2 = reader.table({block + "1.layer_norm.weight", {width}});
    layer.qkv = reader.fused({linear("0.SelfAttention.q", inner, width),
                              linear("0.SelfAttention.k", inner, width),
                              linear("0.SelfAttention.v", inner, width)});
    layer.out = reader.linear(linear("0.SelfAttention.o", width, inner));
    // activate_gated takes the activated half second: wi_0.
    layer.mlp_up =
        config.gated
            ? reader.fused(
                  {linear("1.DenseReluDense.wi_1", config.d_ff, width),
                   linear("1.DenseReluDense.wi_0", config.d_ff, width)})
            : reader.linear(linear("1.DenseReluDense.wi", config.d_ff, width));
    layer.mlp_down =
        reader.linear(linear("1.DenseReluDense.wo", width, config.d_ff));
  }
  weights.final_norm =
      reader.table({"encoder.final_layer_norm.weight", {width}});
  return weights;
}

/// The bucket of a key that lies `distance` behind its query (before it: < 0).
/// Half of the buckets are for either side; on each side, the first half of the
/// buckets hold one distance each, and the other buckets widen with the
/// logarithm of the distance. f32 as in transformers.
std::int64_t bucket_of(const Config& config, std::int64_t distance) {
  const std::int64_t side = config.num_buckets / 2;
  const std::int64_t exact = side / 2;
  const std::int64_t first = distance > 0 ? side : 0;
  const std::int64_t n = std::abs(distance);
  if (n < exact) {
    return first + n;
  }
  const auto start = static_cast<float>(exact);
  const auto range = static_cast<float>(std::log(
      static_cast<double>(config.max_distance) / static_cast<double>(exact)));
  const float step = std::log(static_cast<float>(n) / start) / range *
                     static_cast<float>(side - exact);
  return first + std::min(side - 1, exact + static_cast<std::int64_t>(step));
}

/// [H, N, N] f32 on the host: `table` [buckets, H] at the distance of key j
/// from query i.
Tensor relative_bias(const Config& config, const Tensor& table,
                     std::int64_t tokens) {
  const std::int64_t heads = config.num_heads;
  Tensor bias({heads, tokens, tokens}, DType::f32);
  std::vector<float> line(static_cast<std::size_t>(2 * tokens - 1));
  float* to = bias.data<float>();
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t d = 1 - tokens; d < tokens; ++d) {
      line[static_cast<std::size_t>(d + tokens - 1)] =
          table.data<float>()[bucket_of(config, d) * heads + head];
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
      to = std::copy_n(line.data() + (tokens - 1 - i), tokens, to);
    }
  }
  return bias;
}

/// f32 are: the residual stream, norms, logits with their bias, softmax, the
/// sums of matrix products, the gated product before its rounding, and the
/// result. Matrix products read `compute`. In f16 large models overflow inside
/// the MLP, as in transformers before it clamped; bf16 does not.
class Encoder final : public TextEncoder {
 public:
  Encoder(LayerReader& reader, const Config& config, std::string_view tokens,
          DType compute)
      : config_(config),
        compute_(compute),
        weights_(read_weights(reader, config, tokens)) {}

  [[nodiscard]] EncodedText encode(ExecContext& ctx,
                                   std::span<const std::int32_t> ids,
                                   std::int64_t key_length,
                                   HiddenState wanted) const override;

 private:
  struct Activations {
    Activations(Workspace& workspace, const Config& config, DType compute,
                std::int64_t tokens)
        : normed(workspace.take({1, tokens, config.d_model}, compute)),
          qkv(workspace.take({1, tokens, 3 * config.attention_width()},
                             compute)),
          attended(
              workspace.take({1, tokens, config.attention_width()}, compute)),
          mlp(workspace.take({1, tokens, config.d_ff}, compute)) {
      if (config.gated) {
        gated_mlp = workspace.take({1, tokens, 2 * config.d_ff}, compute);
      }
    }

    Tensor normed;     // [1, N, D]
    Tensor qkv;        // [1, N, 3A]
    Tensor attended;   // [1, N, A]
    Tensor mlp;        // [1, N, F]
    Tensor gated_mlp;  // [1, N, 2F] of a gated MLP
  };

  /// [H, N, N] f32 on ctx's device.
  [[nodiscard]] Tensor bias_of(ExecContext& ctx, std::int64_t tokens) const;
  void run_layer(ExecContext& ctx, const Layer& layer,
                 const kernels::AttentionMask& mask, Activations& act,
                 Tensor& x) const;

  Config config_;
  DType compute_;
  Weights weights_;
  /// Biases by length, the oldest first.
  mutable std::mutex bias_mutex_;
  mutable std::vector<std::pair<std::int64_t, Tensor>> biases_;
};

EncodedText Encoder::encode(ExecContext& ctx, std::span<const std::int32_t> ids,
                            std::int64_t key_length, HiddenState wanted) const {
  const std::int64_t layers =
      checked_layers(kPlace, facts_of(config_), ids, key_length, wanted);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  FiniteCheck finite(ctx, layers + 2);
  const Workspace::Scope scope(ctx.workspace());
  Tensor x = embedded(ctx, weights_.tokens, ids);  // [1, N, D]
  finite.look("embeddings", x);
  Activations act(ctx.workspace(), config_, compute_, tokens);
  const std::int64_t lengths[] = {key_length};
  const kernels::AttentionMask mask{
      .scale = 1.0F, .key_lengths = lengths, .bias = bias_of(ctx, tokens)};
  for (std::int64_t i = 0; i < layers; ++i) {
    run_layer(ctx, weights_.layers[static_cast<std::size_t>(i)], mask, act, x);
    finite.look("layer " + std::to_string(i), x);
    ctx.tick();
  }
  if (wanted.final_norm) {
    kernels::rms_norm(ctx, x, weights_.final_norm, config_.eps,
                      x);  // [1, N, D]
    finite.look("final norm", x);
  }
  finite.require_all(kPlace);
  return {host_copy(ctx, x, {tokens, config_.d_model}), {}};
}

Tensor Encoder::bias_of(ExecContext& ctx, std::int64_t tokens) const {
  if (ctx.device().kind == DeviceKind::meter) {
    // Without elements, and counted as memory of the pass.
    return ctx.workspace().take({config_.num_heads, tokens, tokens},
                                DType::f32);
  }
  const std::lock_guard lock(bias_mutex_);
  auto found = std::ranges::find(biases_, tokens,
                                 [](const auto& entry) { return entry.first; });
  if (found == biases_.end()) {
    Tensor bias =
        kernels::on_device(ctx, relative_bias(config_, weights_.bias, tokens));
    ctx.synchronize();  // other contexts read it too
    std::size_t bytes = bias.num_bytes();
    for (const auto& entry : biases_) {
      bytes += entry.second.num_bytes();
    }
    while (!biases_.empty() && bytes > kMostBiasBytes) {
      bytes -= biases_.front().second.num_bytes();
      biases_.erase(biases_.begin());
    }
    found = biases_.insert(biases_.end(), {tokens, std::move(bias)});
  }
  ctx.keep(found->second);  // another context may let it go
  return found->second;
}

void Encoder::run_layer(ExecContext& ctx, const Layer& layer,
                        const kernels::AttentionMask& mask, Activations& act,
                        Tensor& x) const {
  using kernels::Activation;
  const std::int64_t inner = config_.attention_width();
  kernels::rms_norm(ctx, x, layer.norm_1, config_.eps,
                    act.normed);  // [1, N, D]
  kernels::linear(ctx, act.normed, layer.qkv, Activation::none,
                  act.qkv);  // [1, N, 3A]
  kernels::attention(ctx, {act.qkv, 0}, {act.qkv, inner}, {act.qkv, 2 * inner},
                     config_.num_heads, config_.d_kv, act.attended, {},
                     mask);  // [1, N, A]
  kernels::linear_add(ctx, act.attended, layer.out, x);

  kernels::rms_norm(ctx, x, layer.norm_2, config_.eps,
                    act.normed);  // [1, N, D]
  if (config_.gated) {
    kernels::linear(ctx, act.normed, layer.mlp_up, Activation::none,
                    act.gated_mlp);  // [1, N, 2F]
    kernels::activate_gated(ctx, act.gated_mlp, config_.activation,
                            act.mlp);  // [1, N, F]
  } else {
    kernels::linear(ctx, act.normed, layer.mlp_up, config_.activation,
                    act.mlp);  // [1, N, F]
  }
  kernels::linear_add(ctx, act.mlp, layer.mlp_down, x);
}

class Description final : public TextEncoderDescription {
 public:
  /// Files may have the other half of a whole T5: transformers lets it lie.
  explicit Description(const Config& config)
      : TextEncoderDescription(
            facts_of(config), kTokenNames,
            {.names = {"lm_head.weight"}, .prefixes = {"decoder."}}),
        config_(config) {}

 protected:
  [[nodiscard]] std::unique_ptr<TextEncoder> read(
      LayerReader& reader, std::string_view tokens,
      DType compute) const override {
    return std::make_unique<Encoder>(reader, config_, tokens, compute);
  }
  [[nodiscard]] std::uint64_t hash_with_config(
      std::uint64_t tensors) const override {
    return hash_of(config_, tensors);
  }

 private:
  Config config_;
};

std::unique_ptr<TextEncoderDescription> describe(const Json& config) {
  return std::make_unique<Description>(parse(config));
}

}  // namespace
}  // namespace t5

extern constinit const TextEncoderRow kT5Encoder{.class_name = "T5EncoderModel",
                                                 .describe = t5::describe};

}  // namespace troupe::models
