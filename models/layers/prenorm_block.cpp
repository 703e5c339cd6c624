#include "models/layers/prenorm_block.h"

#include "kernels/activation.h"
#include "kernels/conv2d.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"

namespace troupe::models {

using kernels::Activation;

void add_attention(Pass& pass, const PrenormAttention& layers,
                   std::int64_t num_heads, float eps, Tensor& x) {
  const Workspace::Scope scope(pass.workspace());
  const std::int64_t d = x.dim(2);
  Tensor normed = pass.take(x.shape());  // later the attended values
  Tensor qkv = pass.take_attended(x, num_heads, d / num_heads);
  kernels::layer_norm(pass.ctx(), x, layers.norm.weight, layers.norm.bias, eps,
                      normed);  // [B, N, D]
  kernels::linear(pass.ctx(), normed, layers.qkv, Activation::none, qkv,
                  pass.whole());  // [B, N, 3D]
  pass.attend({{qkv, 0}, {qkv, d}, {qkv, 2 * d}}, num_heads, d / num_heads,
              normed);  // [B, N, D]
  kernels::linear_add(pass.ctx(), normed, layers.out, x, pass.whole());
}

void add_mlp(Pass& pass, const PrenormMlp& layers, const FeedForward& kind,
             float eps, Tensor& x) {
  const Workspace::Scope scope(pass.workspace());
  const auto shape = [&](std::int64_t width) {
    return Shape{x.dim(0), x.dim(1), width};
  };
  Tensor normed = pass.take(x.shape());
  Tensor inner = pass.take(shape(layers.down.in_features()));
  kernels::layer_norm(pass.ctx(), x, layers.norm.weight, layers.norm.bias, eps,
                      normed);  // [B, N, D]
  if (kind.gated) {
    Tensor wide = pass.take(shape(layers.up.out_features()));
    kernels::linear(pass.ctx(), normed, layers.up, Activation::none, wide,
                    pass.whole());  // [B, N, 8D]
    kernels::activate_gated(pass.ctx(), wide, kind.activation,
                            inner);  // [B, N, 4D]
  } else {
    kernels::linear(pass.ctx(), normed, layers.up, kind.activation, inner,
                    pass.whole());  // [B, N, 4D]
  }
  kernels::linear_add(pass.ctx(), inner, layers.down, x, pass.whole());
}

void join_long_skip(Pass& pass, const kernels::PackedLinear& layer,
                    const Tensor& x, const Tensor& skip, Tensor& out) {
  const Workspace::Scope scope(pass.workspace());
  const Shape wide{x.dim(0), x.dim(1), 2 * x.dim(2)};
  Tensor both = pass.take(wide, DType::f32);
  kernels::concat_channels(pass.ctx(), x, skip, both);
  Tensor narrow = pass.take(wide);
  kernels::convert(pass.ctx(), both, narrow);
  kernels::linear(pass.ctx(), narrow, layer, Activation::none, out,
                  pass.whole());
}

}  // namespace troupe::models
