#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "models/files/config_fields.h"

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

}  // namespace troupe::models
