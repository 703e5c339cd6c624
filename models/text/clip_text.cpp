// CLIPTextModel and CLIPTextModelWithProjection of transformers: the text half
// of CLIP (Radford et al. 2021, arXiv:2103.00020).
// Source: transformers models/clip/modeling_clip.py.

#include "models/text/clip_text.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/copy.h"
#include "kernels/norm.h"
#include "models/layers/norm_weights.h"
#include "models/network/layer_reader.h"
#include "models/text/encoder_parts.h"
#include "models/text/text_encoder.h"

// N tokens, D width, F width of the MLP, P width of the projection, V size of
// the vocabulary.

namespace troupe::models {
namespace clip {
namespace {

using Config = ClipTextConfig;

constexpr const char* kPlace = "clip_text";
/// Configurations of older versions say 2, whatever the vocabulary's end is.
constexpr std::int64_t kOldEos = 2;

/// In files the first stands in front of every name but the projection's. Some
/// versions of transformers leave it out.
constexpr std::string_view kPrefixes[] = {"text_model.", ""};

/// Reads config.json of CLIPTextModel, or of CLIPTextModelWithProjection.
/// Errors: Errc::corrupt_file; Errc::unsupported.
Config parse(const Json& json, bool has_projection) {
  require(!json.has("text_config"), Errc::unsupported, json.place(),
          "text_config: this is the configuration of a whole CLIPModel, "
          "expected that of its text half",
          "save the text encoder alone (CLIPTextModel.save_pretrained)");
  require(json.boolean("is_causal", true), Errc::unsupported, json.place(),
          "is_causal: got false, expected true",
          "tokens of CLIP see those before them");
  Config config;
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

TextEncoderFacts facts_of(const Config& config) {
  return {.width = config.hidden_size,
          .pooled_width = config.projection_dim > 0 ? config.projection_dim
                                                    : config.hidden_size,
          .vocab_size = config.vocab_size,
          .max_tokens = config.max_tokens,
          .num_layers = config.num_layers};
}

struct Layer {
  NormWeights norm_1, norm_2;
  kernels::PackedLinear qkv;       // D → 3D: queries, keys, values
  kernels::PackedLinear out;       // D → D
  kernels::PackedLinear mlp_up;    // D → F
  kernels::PackedLinear mlp_down;  // F → D
};

struct Weights {
  Tensor tokens;     // [V, D] on the host, as stored
  Tensor positions;  // [max_tokens, D] f32 on the host
  std::vector<Layer> layers;
  NormWeights final_norm;
  kernels::PackedLinear projection;  // D → P, without bias
};

Weights read_weights(LayerReader& reader, const Config& config,
                     std::string_view prefix) {
  const std::string root(prefix);
  const std::int64_t width = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  Weights weights;
  weights.tokens = reader.host_table(
      {root + "embeddings.token_embedding.weight", {config.vocab_size, width}});
  weights.positions =
      reader.host_table({root + "embeddings.position_embedding.weight",
                         {config.max_tokens, width}},
                        /*as_f32=*/true);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string block =
        root + "encoder.layers." + std::to_string(i) + ".";
    const std::string attention = block + "self_attn.";
    Layer& layer = weights.layers.emplace_back();
    layer.norm_1 = reader.norm(block + "layer_norm1", width);
    layer.norm_2 = reader.norm(block + "layer_norm2", width);
    layer.qkv = reader.fused({linear_spec(attention + "q_proj", width, width),
                              linear_spec(attention + "k_proj", width, width),
                              linear_spec(attention + "v_proj", width, width)});
    layer.out =
        reader.linear(linear_spec(attention + "out_proj", width, width));
    layer.mlp_up = reader.linear(linear_spec(block + "mlp.fc1", inner, width));
    layer.mlp_down =
        reader.linear(linear_spec(block + "mlp.fc2", width, inner));
  }
  weights.final_norm = reader.norm(root + "final_layer_norm", width);
  if (config.projection_dim > 0) {
    weights.projection = reader.linear(
        linear_spec("text_projection", config.projection_dim, width, false));
  }
  return weights;
}

/// The row that stands for the whole text: that of the first end of text. As
/// transformers: the first row where no id ends it; and where the configuration
/// has the old number, the largest id is taken for the end.
std::int64_t pooled_row(std::span<const std::int32_t> ids,
                        std::int64_t eos_token_id) {
  if (eos_token_id == kOldEos) {
    return std::ranges::max_element(ids) - ids.begin();
  }
  const auto found = std::ranges::find(ids, eos_token_id);
  return found == ids.end() ? 0 : found - ids.begin();
}

/// The residual stream, norms, logits and softmax are f32; matrix products run
/// in `compute`. All layers run: the pooled vector is made of the last one.
class Encoder final : public TextEncoder {
 public:
  Encoder(LayerReader& reader, const Config& config, std::string_view prefix,
          DType compute)
      : config_(config),
        compute_(compute),
        weights_(read_weights(reader, config, prefix)) {}

  [[nodiscard]] EncodedText encode(ExecContext& ctx,
                                   std::span<const std::int32_t> ids,
                                   std::int64_t key_length,
                                   HiddenState wanted) const override;

 private:
  struct Activations {
    Activations(Workspace& workspace, const Config& config, DType compute,
                std::int64_t tokens)
        : normed(workspace.take({1, tokens, config.hidden_size}, compute)),
          qkv(workspace.take({1, tokens, 3 * config.hidden_size}, compute)),
          mlp(workspace.take({1, tokens, config.intermediate_size}, compute)) {}

    Tensor normed;  // [1, N, D], later the attended values
    Tensor qkv;     // [1, N, 3D]
    Tensor mlp;     // [1, N, F]
  };

  void run_layer(ExecContext& ctx, const Layer& layer,
                 const kernels::AttentionMask& mask, Activations& act,
                 Tensor& x) const;
  /// The hidden state of a caller: a copy of x [1, N, D], or its norm, in the
  /// workspace.
  [[nodiscard]] Tensor state_of(ExecContext& ctx, const Tensor& x,
                                bool final_norm) const;
  /// `row` of the last layer's output x as one vector [1, 1, P].
  [[nodiscard]] Tensor pool(ExecContext& ctx, const Tensor& x,
                            std::int64_t row) const;

  Config config_;
  DType compute_;
  Weights weights_;
};

EncodedText Encoder::encode(ExecContext& ctx, std::span<const std::int32_t> ids,
                            std::int64_t key_length, HiddenState wanted) const {
  const std::int64_t wanted_layers =
      checked_layers(kPlace, facts_of(config_), ids, key_length, wanted);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  FiniteCheck finite(ctx, config_.num_layers + 3);
  const Workspace::Scope scope(ctx.workspace());
  Tensor x =
      embedded(ctx, weights_.tokens, ids, weights_.positions);  // [1, N, D]
  finite.look("embeddings", x);
  Tensor hidden;
  Activations act(ctx.workspace(), config_, compute_, tokens);
  const std::int64_t lengths[] = {key_length};
  const kernels::AttentionMask mask{.causal = true, .key_lengths = lengths};
  for (std::int64_t i = 0; i < config_.num_layers; ++i) {
    if (i == wanted_layers) {
      hidden = state_of(ctx, x, wanted.final_norm);  // [1, N, D]
    }
    run_layer(ctx, weights_.layers[static_cast<std::size_t>(i)], mask, act, x);
    finite.look("layer " + std::to_string(i), x);
    ctx.tick();
  }
  if (wanted_layers == config_.num_layers) {
    hidden = state_of(ctx, x, wanted.final_norm);  // [1, N, D]
  }
  if (wanted.final_norm) {
    finite.look("final norm", hidden);
  }
  const Tensor pooled =
      pool(ctx, x, pooled_row(ids, config_.eos_token_id));  // [1, 1, P]
  finite.look("pooled vector", pooled);
  finite.require_all(kPlace);
  return {host_copy(ctx, hidden, {tokens, config_.hidden_size}),
          host_copy(ctx, pooled, {pooled.dim(2)})};
}

void Encoder::run_layer(ExecContext& ctx, const Layer& layer,
                        const kernels::AttentionMask& mask, Activations& act,
                        Tensor& x) const {
  const std::int64_t width = config_.hidden_size;
  kernels::layer_norm(ctx, x, layer.norm_1.weight, layer.norm_1.bias,
                      config_.eps, act.normed);  // [1, N, D]
  kernels::linear(ctx, act.normed, layer.qkv, kernels::Activation::none,
                  act.qkv);  // [1, N, 3D]
  kernels::attention(ctx, {act.qkv, 0}, {act.qkv, width}, {act.qkv, 2 * width},
                     config_.num_heads, config_.head_dim(), act.normed, {},
                     mask);  // [1, N, D]
  kernels::linear_add(ctx, act.normed, layer.out, x);

  kernels::layer_norm(ctx, x, layer.norm_2.weight, layer.norm_2.bias,
                      config_.eps, act.normed);  // [1, N, D]
  kernels::linear(ctx, act.normed, layer.mlp_up, config_.activation,
                  act.mlp);  // [1, N, F]
  kernels::linear_add(ctx, act.mlp, layer.mlp_down, x);
}

Tensor Encoder::state_of(ExecContext& ctx, const Tensor& x,
                         bool final_norm) const {
  Tensor state = ctx.workspace().take(x.shape(), DType::f32);
  if (final_norm) {
    kernels::layer_norm(ctx, x, weights_.final_norm.weight,
                        weights_.final_norm.bias, config_.eps, state);
  } else {
    kernels::copy(ctx, x, state);
  }
  return state;
}

Tensor Encoder::pool(ExecContext& ctx, const Tensor& x,
                     std::int64_t row) const {
  const Shape one{1, 1, config_.hidden_size};
  const Tensor last = x.item(0).slice(row, row + 1).reshape(one);
  if (config_.projection_dim == 0) {
    return state_of(ctx, last, true);  // [1, 1, D]
  }
  Tensor normed = ctx.workspace().take(one, compute_);
  kernels::layer_norm(ctx, last, weights_.final_norm.weight,
                      weights_.final_norm.bias, config_.eps,
                      normed);  // [1, 1, D]
  Tensor pooled =
      ctx.workspace().take({1, 1, config_.projection_dim}, DType::f32);
  kernels::linear(ctx, normed, weights_.projection, kernels::Activation::none,
                  pooled);  // [1, 1, P]
  return pooled;
}

class Description final : public TextEncoderDescription {
 public:
  /// Files may have the other half of a CLIPModel: transformers lets it lie.
  explicit Description(const Config& config)
      : TextEncoderDescription(
            facts_of(config), kPrefixes,
            {.names = {"logit_scale", "text_projection.weight",
                       "visual_projection.weight"},
             .prefixes = {"vision_model."}}),
        config_(config) {}

 protected:
  [[nodiscard]] std::unique_ptr<TextEncoder> read(
      LayerReader& reader, std::string_view prefix,
      DType compute) const override {
    return std::make_unique<Encoder>(reader, config_, prefix, compute);
  }
  [[nodiscard]] std::uint64_t hash_with_config(
      std::uint64_t tensors) const override {
    return hash_of(config_, tensors);
  }

 private:
  Config config_;
};

std::unique_ptr<TextEncoderDescription> describe(const Json& config) {
  return std::make_unique<Description>(parse(config, false));
}

std::unique_ptr<TextEncoderDescription> describe_with_projection(
    const Json& config) {
  return std::make_unique<Description>(parse(config, true));
}

}  // namespace
}  // namespace clip

extern constinit const TextEncoderRow kClipText{.class_name = "CLIPTextModel",
                                                .describe = clip::describe};
extern constinit const TextEncoderRow kClipTextWithProjection{
    .class_name = "CLIPTextModelWithProjection",
    .describe = clip::describe_with_projection};

}  // namespace troupe::models
