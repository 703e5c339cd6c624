// CLIPTextModel and CLIPTextModelWithProjection of transformers: the text half
// of CLIP (Radford et al. 2021, arXiv:2103.00020).
// Source: transformers models/clip/modeling_clip.py.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/copy.h"
#include "kernels/norm.h"
#include "models/text/clip_text_weights.h"
#include "models/text/text_encoder.h"

// N tokens, D width, F width of the MLP, P width of the projection.

namespace troupe::models {
namespace {

constexpr const char* kClipTextPlace = "clip_text";
/// Configurations of older versions say 2, whatever the vocabulary's end is.
constexpr std::int64_t kOldEos = 2;

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
class ClipText final : public TextEncoder {
 public:
  ClipText(ExecContext& ctx, const ClipTextConfig& config, DType compute,
           WeightSource& source)
      : config_(config),
        compute_(compute),
        weights_(load_clip_text_weights(ctx, config, compute, source)) {}

  [[nodiscard]] EncodedText encode(ExecContext& ctx,
                                   std::span<const std::int32_t> ids,
                                   std::int64_t key_length,
                                   HiddenState wanted) const override;
  [[nodiscard]] std::uint64_t weights_hash() const override {
    return weights_.hash;
  }

 private:
  struct Activations {
    Activations(Workspace& workspace, const ClipTextConfig& config,
                DType compute, std::int64_t tokens)
        : normed(workspace.take({1, tokens, config.hidden_size}, compute)),
          qkv(workspace.take({1, tokens, 3 * config.hidden_size}, compute)),
          mlp(workspace.take({1, tokens, config.intermediate_size}, compute)) {}

    Tensor normed;  // [1, N, D], later the attended values
    Tensor qkv;     // [1, N, 3D]
    Tensor mlp;     // [1, N, F]
  };

  [[nodiscard]] Tensor embed(ExecContext& ctx,
                             std::span<const std::int32_t> ids) const;
  void run_layer(ExecContext& ctx, const ClipTextLayer& layer,
                 const kernels::AttentionMask& mask, Activations& act,
                 Tensor& x) const;
  /// The hidden state of a caller: a copy of x [1, N, D], or its norm.
  [[nodiscard]] Tensor state_of(ExecContext& ctx, const Tensor& x,
                                bool final_norm) const;
  /// `row` of the last layer's output x as one vector [1, 1, P].
  [[nodiscard]] Tensor pool(ExecContext& ctx, const Tensor& x,
                            std::int64_t row) const;

  ClipTextConfig config_;
  DType compute_;
  ClipTextWeights weights_;
};

EncodedText ClipText::encode(ExecContext& ctx,
                             std::span<const std::int32_t> ids,
                             std::int64_t key_length,
                             HiddenState wanted) const {
  const std::int64_t wanted_layers =
      checked_layers(kClipTextPlace, config_.limits(), ids, key_length, wanted);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  FiniteCheck finite(ctx, config_.num_layers + 3);
  Tensor x = embed(ctx, ids);  // [1, N, D]
  finite.look("embeddings", x);
  Tensor hidden;
  {
    const Workspace::Scope scope(ctx.workspace());
    Activations act(ctx.workspace(), config_, compute_, tokens);
    const std::int64_t lengths[] = {key_length};
    const kernels::AttentionMask mask{.causal = true, .key_lengths = lengths};
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      if (i == wanted_layers) {
        hidden = state_of(ctx, x, wanted.final_norm);  // [1, N, D]
      }
      run_layer(ctx, weights_.layers[static_cast<std::size_t>(i)], mask, act,
                x);
      finite.look("layer " + std::to_string(i), x);
      ctx.tick();
    }
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
  finite.require_all(kClipTextPlace);
  return {kernels::on_host(ctx, hidden).reshape({tokens, config_.hidden_size}),
          kernels::on_host(ctx, pooled).reshape({pooled.dim(2)})};
}

Tensor ClipText::embed(ExecContext& ctx,
                       std::span<const std::int32_t> ids) const {
  Tensor x = embedded(weights_.tokens, ids);  // [N, D]
  const float* positions = weights_.positions.data<float>();
  for (float& value : x.span<float>()) {
    value += *positions++;
  }
  return kernels::on_device(ctx, x.reshape({1, x.dim(0), x.dim(1)}));
}

void ClipText::run_layer(ExecContext& ctx, const ClipTextLayer& layer,
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

Tensor ClipText::state_of(ExecContext& ctx, const Tensor& x,
                          bool final_norm) const {
  if (!final_norm) {
    return kernels::clone(ctx, x);
  }
  Tensor normed = ctx.empty(x.shape(), DType::f32);
  kernels::layer_norm(ctx, x, weights_.final_norm.weight,
                      weights_.final_norm.bias, config_.eps, normed);
  return normed;
}

Tensor ClipText::pool(ExecContext& ctx, const Tensor& x,
                      std::int64_t row) const {
  const Shape one{1, 1, config_.hidden_size};
  const Tensor last = x.item(0).slice(row, row + 1).reshape(one);
  if (config_.projection_dim == 0) {
    return state_of(ctx, last, true);  // [1, 1, D]
  }
  Tensor normed = ctx.empty(one, compute_);
  kernels::layer_norm(ctx, last, weights_.final_norm.weight,
                      weights_.final_norm.bias, config_.eps,
                      normed);  // [1, 1, D]
  Tensor pooled = ctx.empty({1, 1, config_.projection_dim}, DType::f32);
  kernels::linear(ctx, normed, weights_.projection, kernels::Activation::none,
                  pooled);  // [1, 1, P]
  return pooled;
}

class ClipTextDescription final : public TextEncoderDescription {
 public:
  explicit ClipTextDescription(const ClipTextConfig& config)
      : config_(config) {}

  [[nodiscard]] std::int64_t width() const override {
    return config_.hidden_size;
  }
  [[nodiscard]] std::int64_t pooled_width() const override {
    return config_.projection_dim > 0 ? config_.projection_dim : width();
  }
  [[nodiscard]] std::int64_t vocab_size() const override {
    return config_.vocab_size;
  }
  [[nodiscard]] std::int64_t max_tokens() const override {
    return config_.max_tokens;
  }
  [[nodiscard]] std::int64_t num_layers() const override {
    return config_.num_layers;
  }
  [[nodiscard]] double flops(std::int64_t tokens) const override;
  [[nodiscard]] std::uint64_t weights_bytes(DType compute) const override {
    return packed_bytes(clip_text_tensors(config_, kClipTextPrefix), compute);
  }
  [[nodiscard]] std::uint64_t table_bytes() const override {
    return models::table_bytes(clip_text_tensors(config_, kClipTextPrefix));
  }
  [[nodiscard]] std::uint64_t pass_bytes(std::int64_t tokens,
                                         DType compute) const override {
    const auto element = static_cast<std::int64_t>(size_of(compute));
    // x, the wanted state and its copy on the host; normed, qkv, the MLP.
    return static_cast<std::uint64_t>(
        tokens *
        (width() * (12 + 4 * element) + config_.intermediate_size * element));
  }
  [[nodiscard]] ClassTensors tensors() const override;
  [[nodiscard]] std::unique_ptr<TextEncoder> load(
      ExecContext& ctx, DType compute, WeightSource& weights) const override {
    return std::make_unique<ClipText>(ctx, config_, compute, weights);
  }
  [[nodiscard]] std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const override {
    return load_clip_text_weights(ctx, config_, std::nullopt, weights).hash;
  }

 private:
  ClipTextConfig config_;
};

double ClipTextDescription::flops(std::int64_t tokens) const {
  const auto width = static_cast<double>(config_.hidden_size);
  const auto inner = static_cast<double>(config_.intermediate_size);
  const auto rows = static_cast<double>(tokens);
  const double layer = 2.0 * rows * width * (4.0 * width + 2.0 * inner) +
                       4.0 * rows * rows * width;
  return static_cast<double>(config_.num_layers) * layer +
         2.0 * width * static_cast<double>(config_.projection_dim);
}

/// Both spellings, and the other half of a CLIPModel, which transformers lets
/// lie too.
ClassTensors ClipTextDescription::tensors() const {
  ClassTensors tensors{.names = {"logit_scale", "text_projection.weight",
                                 "visual_projection.weight"},
                       .prefixes = {"vision_model."}};
  for (const std::string_view prefix : {kClipTextPrefix, std::string_view()}) {
    for (TensorSpec& spec : clip_text_tensors(config_, prefix)) {
      tensors.names.push_back(std::move(spec.name));
    }
  }
  return tensors;
}

std::unique_ptr<TextEncoderDescription> describe_clip(const Json& config) {
  return std::make_unique<ClipTextDescription>(
      parse_clip_text_config(config, false));
}

std::unique_ptr<TextEncoderDescription> describe_clip_with_projection(
    const Json& config) {
  return std::make_unique<ClipTextDescription>(
      parse_clip_text_config(config, true));
}

}  // namespace

extern constinit const TextEncoderRow kClipText{.class_name = "CLIPTextModel",
                                                .describe = describe_clip};
extern constinit const TextEncoderRow kClipTextWithProjection{
    .class_name = "CLIPTextModelWithProjection",
    .describe = describe_clip_with_projection};

}  // namespace troupe::models
