#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/activation.h"
#include "kernels/core/context.h"
#include "kernels/linear.h"
#include "models/files/config_fields.h"
#include "models/files/json.h"
#include "models/files/weight_source.h"
#include "models/layers/norm_weights.h"
#include "models/text/encoder_parts.h"

// D width, F width of the MLP, P width of the projection, V size of the
// vocabulary.

namespace troupe::models {

/// The keys of CLIPTextConfig that change the arithmetic, with the defaults of
/// that class.
struct ClipTextConfig {
  std::int64_t vocab_size = 49408;
  std::int64_t hidden_size = 512;
  std::int64_t intermediate_size = 2048;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 8;
  std::int64_t max_tokens = 77;
  kernels::Activation activation = kernels::Activation::gelu_sigmoid;
  float eps = 1e-5F;
  std::int64_t eos_token_id = 49407;
  /// P; 0: a CLIPTextModel, which projects nothing.
  std::int64_t projection_dim = 0;

  [[nodiscard]] std::int64_t head_dim() const noexcept {
    return hidden_size / num_heads;
  }
  [[nodiscard]] EncoderLimits limits() const noexcept {
    return {vocab_size, max_tokens, num_layers};
  }
};

constexpr void visit_fields(auto& visit, AnyConst<ClipTextConfig> auto& c) {
  visit({"vocab_size", 1, 10'000'000}, c.vocab_size);
  visit({"hidden_size", 1, 65536}, c.hidden_size);
  visit({"intermediate_size", 1, 1 << 20}, c.intermediate_size);
  visit({"num_hidden_layers", 1, 4096}, c.num_layers);
  visit({"num_attention_heads", 1, 1024}, c.num_heads);
  visit({"max_position_embeddings", 1, 4096}, c.max_tokens);
  visit(ParsedKey({"hidden_act"}), c.activation);
  visit({.name = "layer_norm_eps", .not_negative = true}, c.eps);
  visit({"eos_token_id", -1, 10'000'000}, c.eos_token_id);
  visit(ParsedKey({"projection_dim"}), c.projection_dim);
}
static_assert(lists_all_members<ClipTextConfig>());

/// Reads config.json of CLIPTextModel, or of CLIPTextModelWithProjection.
/// Errors: Errc::corrupt_file; Errc::unsupported.
[[nodiscard]] ClipTextConfig parse_clip_text_config(const Json& json,
                                                    bool has_projection);

struct ClipTextLayer {
  NormWeights norm_1, norm_2;
  kernels::PackedLinear qkv;       ///< D → 3D: queries, keys, values
  kernels::PackedLinear out;       ///< D → D
  kernels::PackedLinear mlp_up;    ///< D → F
  kernels::PackedLinear mlp_down;  ///< F → D
};

struct ClipTextWeights {
  Tensor tokens;     ///< [V, D] on the host, as stored
  Tensor positions;  ///< [max_tokens, D] f32 on the host
  std::vector<ClipTextLayer> layers;
  NormWeights final_norm;
  kernels::PackedLinear projection;  ///< D → P, without bias
  std::uint64_t hash = 0;
};

/// In files these words stand in front of every name but the projection's. Some
/// versions of transformers leave them out.
inline constexpr std::string_view kClipTextPrefix = "text_model.";

/// Every tensor of the encoder, with `prefix` in front, in the order in which
/// they are read.
[[nodiscard]] std::vector<TensorSpec> clip_text_tensors(
    const ClipTextConfig& config, std::string_view prefix);

/// Checks all tensors, then reads and packs them one after another, on ctx's
/// device. Without a compute type nothing is packed: for the hash. Complete on
/// return.
/// Errors: as WeightSource and PackedLinear; Errc::interrupted.
[[nodiscard]] ClipTextWeights load_clip_text_weights(
    ExecContext& ctx, const ClipTextConfig& config,
    std::optional<DType> compute, WeightSource& source);

}  // namespace troupe::models
