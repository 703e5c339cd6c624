// T5EncoderModel of transformers: the encoder of T5 (Raffel et al. 2020,
// arXiv:1910.10683), in the gated form of version 1.1 or in the first one.
// Source: transformers models/t5/modeling_t5.py.

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
#include "models/text/t5_weights.h"
#include "models/text/text_encoder.h"

// N tokens, D width, H heads, A = H · d_kv, F width of the MLP.

namespace troupe::models {
namespace {

constexpr const char* kT5EncoderPlace = "t5_encoder";
/// Biases of lengths that were asked for are kept up to so many bytes, and the
/// last one always.
constexpr std::size_t kMostBiasBytes = std::size_t{64} << 20U;

/// The bucket of a key that lies `distance` behind its query (before it: < 0).
/// Half of the buckets are for either side; on each side, the first half of the
/// buckets hold one distance each, and the other buckets widen with the
/// logarithm of the distance. f32 as in transformers.
std::int64_t bucket_of(const T5Config& config, std::int64_t distance) {
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
Tensor relative_bias(const T5Config& config, const Tensor& table,
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
class T5Encoder final : public TextEncoder {
 public:
  T5Encoder(ExecContext& ctx, const T5Config& config, DType compute,
            WeightSource& source)
      : config_(config),
        compute_(compute),
        weights_(load_t5_weights(ctx, config, compute, source)) {}

  [[nodiscard]] EncodedText encode(ExecContext& ctx,
                                   std::span<const std::int32_t> ids,
                                   std::int64_t key_length,
                                   HiddenState wanted) const override;
  [[nodiscard]] std::uint64_t weights_hash() const override {
    return weights_.hash;
  }

 private:
  struct Activations {
    Activations(Workspace& workspace, const T5Config& config, DType compute,
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
  void run_layer(ExecContext& ctx, const T5Layer& layer,
                 const kernels::AttentionMask& mask, Activations& act,
                 Tensor& x) const;

  T5Config config_;
  DType compute_;
  T5Weights weights_;
  /// Biases by length, the oldest first.
  mutable std::mutex bias_mutex_;
  mutable std::vector<std::pair<std::int64_t, Tensor>> biases_;
};

EncodedText T5Encoder::encode(ExecContext& ctx,
                              std::span<const std::int32_t> ids,
                              std::int64_t key_length,
                              HiddenState wanted) const {
  const std::int64_t layers = checked_layers(kT5EncoderPlace, config_.limits(),
                                             ids, key_length, wanted);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  FiniteCheck finite(ctx, layers + 2);
  Tensor x = kernels::on_device(
      ctx, embedded(weights_.tokens, ids)
               .reshape({1, tokens, config_.d_model}));  // [1, N, D]
  finite.look("embeddings", x);
  {
    const Workspace::Scope scope(ctx.workspace());
    Activations act(ctx.workspace(), config_, compute_, tokens);
    const std::int64_t lengths[] = {key_length};
    const kernels::AttentionMask mask{
        .scale = 1.0F, .key_lengths = lengths, .bias = bias_of(ctx, tokens)};
    for (std::int64_t i = 0; i < layers; ++i) {
      run_layer(ctx, weights_.layers[static_cast<std::size_t>(i)], mask, act,
                x);
      finite.look("layer " + std::to_string(i), x);
      ctx.tick();
    }
  }
  if (wanted.final_norm) {
    kernels::rms_norm(ctx, x, weights_.final_norm, config_.eps,
                      x);  // [1, N, D]
    finite.look("final norm", x);
  }
  finite.require_all(kT5EncoderPlace);
  return {kernels::on_host(ctx, x).reshape({tokens, config_.d_model}), {}};
}

Tensor T5Encoder::bias_of(ExecContext& ctx, std::int64_t tokens) const {
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

void T5Encoder::run_layer(ExecContext& ctx, const T5Layer& layer,
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

class T5EncoderDescription final : public TextEncoderDescription {
 public:
  explicit T5EncoderDescription(const T5Config& config) : config_(config) {}

  [[nodiscard]] std::int64_t width() const override { return config_.d_model; }
  [[nodiscard]] std::int64_t pooled_width() const override { return 0; }
  [[nodiscard]] std::int64_t vocab_size() const override {
    return config_.vocab_size;
  }
  [[nodiscard]] std::int64_t max_tokens() const override {
    return T5Config::kMostTokens;
  }
  [[nodiscard]] std::int64_t num_layers() const override {
    return config_.num_layers;
  }
  [[nodiscard]] double flops(std::int64_t tokens) const override;
  [[nodiscard]] std::uint64_t weights_bytes(DType compute) const override {
    return packed_bytes(t5_tensors(config_, kT5TokenNames[0]), compute);
  }
  [[nodiscard]] std::uint64_t table_bytes() const override {
    return models::table_bytes(t5_tensors(config_, kT5TokenNames[0]));
  }
  [[nodiscard]] std::uint64_t pass_bytes(std::int64_t tokens,
                                         DType compute) const override;
  [[nodiscard]] ClassTensors tensors() const override;
  [[nodiscard]] std::unique_ptr<TextEncoder> load(
      ExecContext& ctx, DType compute, WeightSource& weights) const override {
    return std::make_unique<T5Encoder>(ctx, config_, compute, weights);
  }
  [[nodiscard]] std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const override {
    return load_t5_weights(ctx, config_, std::nullopt, weights).hash;
  }

 private:
  T5Config config_;
};

double T5EncoderDescription::flops(std::int64_t tokens) const {
  const auto rows = static_cast<double>(tokens);
  const auto width = static_cast<double>(config_.d_model);
  const auto inner = static_cast<double>(config_.attention_width());
  const double mlp =
      (config_.gated ? 3.0 : 2.0) * width * static_cast<double>(config_.d_ff);
  return static_cast<double>(config_.num_layers) *
         (2.0 * rows * (4.0 * width * inner + mlp) + 4.0 * rows * rows * inner);
}

std::uint64_t T5EncoderDescription::pass_bytes(std::int64_t tokens,
                                               DType compute) const {
  const auto element = static_cast<std::int64_t>(size_of(compute));
  // x and its copy on the host; normed, qkv, attended, the MLP; and the bias of
  // all pairs, which is kept.
  const std::int64_t per_token =
      config_.d_model * (8 + element) +
      4 * config_.attention_width() * element +
      (config_.gated ? 3 : 1) * config_.d_ff * element;
  const std::int64_t bias = config_.num_heads * tokens * tokens * 4;
  return static_cast<std::uint64_t>(tokens * per_token + bias);
}

/// Both names of the table, and the other half of a whole T5, which
/// transformers lets lie too.
ClassTensors T5EncoderDescription::tensors() const {
  ClassTensors tensors{.names = {"lm_head.weight"}, .prefixes = {"decoder."}};
  for (TensorSpec& spec : t5_tensors(config_, kT5TokenNames[0])) {
    tensors.names.push_back(std::move(spec.name));
  }
  tensors.names.emplace_back(kT5TokenNames[1]);
  return tensors;
}

std::unique_ptr<TextEncoderDescription> describe_t5(const Json& config) {
  return std::make_unique<T5EncoderDescription>(parse_t5_config(config));
}

}  // namespace

extern constinit const TextEncoderRow kT5Encoder{.class_name = "T5EncoderModel",
                                                 .describe = describe_t5};

}  // namespace troupe::models
