#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "models/files/config_fields.h"

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

}  // namespace troupe::models
