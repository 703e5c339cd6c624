#include "models/layers/adaln_block.h"

#include <string>

#include "kernels/activation.h"
#include "models/files/config_fields.h"

namespace troupe::models {
namespace {

/// Parts of a block's modulation.
enum AdalnPart {
  kAttentionShift,
  kAttentionScale,
  kAttentionGate,
  kMlpShift,
  kMlpScale,
  kMlpGate
};

}  // namespace

using kernels::Activation;

void AdalnShape::check(const Json& json) const {
  ValueCheck(json, "correct this file")(
      width() % 4 == 0, "width",
      std::to_string(width()) + " (heads times head dim)", "a multiple of 4");
}

void AdalnLayers::read_attention(LayerReader& reader, const std::string& name,
                                 const AdalnShape& shape, bool bias) {
  const AttentionSpec spec =
      attention_spec(name + "attn1", shape.width(), bias);
  qkv = reader.fused({spec.q, spec.k, spec.v});
  out = reader.linear(spec.out);
}

void AdalnLayers::read_feed_forward(LayerReader& reader,
                                    const std::string& name,
                                    const AdalnShape& shape) {
  mlp_up = reader.linear(
      linear_spec(name + "ff.net.0.proj", shape.mlp_up_width(), shape.width()));
  mlp_down = reader.linear(
      linear_spec(name + "ff.net.2", shape.width(), shape.mlp_width()));
}

BlockBuffers::BlockBuffers(Pass& pass, const AdalnShape& shape, const Tensor& x)
    : normed(pass.take(x.shape())),
      qkv(pass.take_attended(x, shape.num_heads, shape.head_dim)),
      mlp(pass.take({x.dim(0), x.dim(1), shape.mlp_width()})) {
  if (shape.feed_forward.gated) {
    gated_mlp = pass.take({x.dim(0), x.dim(1), shape.mlp_up_width()});
  }
}

Tensor BlockBuffers::quarter(std::int64_t index) const {
  const std::int64_t rows = normed.dim(0);
  return mlp.reshape({4 * rows, normed.dim(1), normed.dim(2)})
      .slice(index * rows, (index + 1) * rows);
}

void add_self_attention(Pass& pass, const AdalnShape& shape,
                        const AdalnLayers& layers, const Columns& mod,
                        float eps, BlockBuffers& buffers) {
  const std::int64_t width = shape.width();
  pass.residual().layer_norm_modulate(pass.ctx(), mod.at(kAttentionShift),
                                      mod.at(kAttentionScale), eps,
                                      buffers.normed);  // [B, N, D]
  kernels::linear(pass.ctx(), buffers.normed, layers.qkv, Activation::none,
                  buffers.qkv, pass.whole());  // [B, N, 3D]
  pass.attend(
      {{buffers.qkv, 0}, {buffers.qkv, width}, {buffers.qkv, 2 * width}},
      shape.num_heads, shape.head_dim, buffers.normed);  // [B, N, D]
  pass.residual().add_gated_linear(pass.ctx(), buffers.normed, layers.out,
                                   mod.at(kAttentionGate), pass.whole());
}

void add_feed_forward(Pass& pass, const AdalnShape& shape,
                      const AdalnLayers& layers, const Columns& mod, float eps,
                      BlockBuffers& buffers) {
  pass.residual().layer_norm_modulate(pass.ctx(), mod.at(kMlpShift),
                                      mod.at(kMlpScale), eps,
                                      buffers.normed);  // [B, N, D]
  if (shape.feed_forward.gated) {
    kernels::linear(pass.ctx(), buffers.normed, layers.mlp_up, Activation::none,
                    buffers.gated_mlp, pass.whole());  // [B, N, 8D]
    kernels::activate_gated(pass.ctx(), buffers.gated_mlp,
                            shape.feed_forward.activation,
                            buffers.mlp);  // [B, N, 4D]
  } else {
    kernels::linear(pass.ctx(), buffers.normed, layers.mlp_up,
                    shape.feed_forward.activation, buffers.mlp,
                    pass.whole());  // [B, N, 4D]
  }
  pass.residual().add_gated_linear(pass.ctx(), buffers.mlp, layers.mlp_down,
                                   mod.at(kMlpGate), pass.whole());
}

}  // namespace troupe::models
