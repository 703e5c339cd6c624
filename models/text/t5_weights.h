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
#include "models/text/encoder_parts.h"

// D width, H heads, A = H · d_kv, F width of the MLP, V size of the vocabulary.

namespace troupe::models {

/// The keys of T5Config that change the encoder's arithmetic, with the defaults
/// of that class.
struct T5Config {
  /// A bound of ours: T5 has no position table. The bias of all pairs of tokens
  /// is [H, N, N] f32: 256 MiB of T5-XXL at this length.
  static constexpr std::int64_t kMostTokens = 1024;

  std::int64_t vocab_size = 32128;
  std::int64_t d_model = 512;
  std::int64_t d_kv = 64;
  std::int64_t d_ff = 2048;
  std::int64_t num_layers = 6;
  std::int64_t num_heads = 8;
  std::int64_t num_buckets = 32;
  std::int64_t max_distance = 128;
  float eps = 1e-6F;
  kernels::Activation activation = kernels::Activation::relu;
  bool gated = false;  ///< feed_forward_proj "gated-…"

  [[nodiscard]] std::int64_t attention_width() const noexcept {
    return num_heads * d_kv;
  }
  [[nodiscard]] EncoderLimits limits() const noexcept {
    return {vocab_size, kMostTokens, num_layers};
  }
};

constexpr void visit_fields(auto& visit, AnyConst<T5Config> auto& c) {
  visit({"vocab_size", 1, 10'000'000}, c.vocab_size);
  visit({"d_model", 1, 65536, "hidden_size"}, c.d_model);
  visit({"d_kv", 1, 1024, "head_dim"}, c.d_kv);
  visit({"d_ff", 1, 1 << 20}, c.d_ff);
  visit({"num_layers", 1, 4096, "num_hidden_layers"}, c.num_layers);
  visit({"num_heads", 1, 1024, "num_attention_heads"}, c.num_heads);
  visit({"relative_attention_num_buckets", 4, 65536}, c.num_buckets);
  visit({"relative_attention_max_distance", 1, 1 << 20}, c.max_distance);
  visit({.name = "layer_norm_epsilon", .not_negative = true}, c.eps);
  visit(ParsedKey({"feed_forward_proj"}), c.activation);
  visit(ParsedKey({"feed_forward_proj"}), c.gated);
}
static_assert(lists_all_members<T5Config>());

/// Reads config.json of T5EncoderModel.
/// Errors: Errc::corrupt_file; Errc::unsupported.
[[nodiscard]] T5Config parse_t5_config(const Json& json);

struct T5Layer {
  Tensor norm_1, norm_2;         ///< [D] f32
  kernels::PackedLinear qkv;     ///< D → 3A: queries, keys, values
  kernels::PackedLinear out;     ///< A → D
  kernels::PackedLinear mlp_up;  ///< D → F, gated: 2F, the activated half last
  kernels::PackedLinear mlp_down;  ///< F → D
};

struct T5Weights {
  Tensor tokens;  ///< [V, D] on the host, as stored
  Tensor bias;    ///< [buckets, H] f32 on the host
  std::vector<T5Layer> layers;
  Tensor final_norm;  ///< [D] f32
  std::uint64_t hash = 0;
};

/// Files may have the table under either name, or under both.
inline constexpr std::string_view kT5TokenNames[] = {
    "shared.weight", "encoder.embed_tokens.weight"};

/// Every tensor of the encoder, in the order in which they are read. `tokens`:
/// the name of the embedding table.
[[nodiscard]] std::vector<TensorSpec> t5_tensors(const T5Config& config,
                                                 std::string_view tokens);

/// Checks all tensors, then reads and packs them one after another, on ctx's
/// device. Without a compute type nothing is packed: for the hash. Complete on
/// return.
/// Errors: as WeightSource and PackedLinear; Errc::interrupted.
[[nodiscard]] T5Weights load_t5_weights(ExecContext& ctx,
                                        const T5Config& config,
                                        std::optional<DType> compute,
                                        WeightSource& source);

}  // namespace troupe::models
