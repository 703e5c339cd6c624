#include "models/adaln_block.h"

#include "kernels/activation.h"
#include "kernels/attention.h"

namespace troupe::models {

using kernels::Activation;

std::int64_t AdalnShape::bytes_per_token(DType compute,
                                         DeviceKind kind) const noexcept {
  const auto element = static_cast<std::int64_t>(size_of(compute));
  // The residual stream; normed, qkv and mlp, before its gate too.
  std::int64_t bytes = width() * (4 + 8 * element);
  if (feed_forward.gated) {
    bytes += mlp_up_width() * element;
  }
  if (kind == DeviceKind::cpu) {
    return bytes;
  }
  // The product that is still to be added to the residual stream, and the one
  // in front of an activation that cuBLASLt has not.
  bytes += 4 * width();
  const bool is_apart = compute != DType::f32 && !feed_forward.gated &&
                        feed_forward.activation != Activation::gelu_tanh;
  return is_apart ? bytes + 4 * mlp_width() : bytes;
}

BlockBuffers::BlockBuffers(Workspace& workspace, const AdalnShape& shape,
                           DType compute, std::int64_t rows,
                           std::int64_t tokens)
    : normed(workspace.take({rows, tokens, shape.width()}, compute)),
      qkv(workspace.take({rows, tokens, 3 * shape.width()}, compute)),
      mlp(workspace.take({rows, tokens, shape.mlp_width()}, compute)) {
  if (shape.feed_forward.gated) {
    gated_mlp = workspace.take({rows, tokens, shape.mlp_up_width()}, compute);
  }
}

Tensor BlockBuffers::third(std::int64_t index) const {
  const std::int64_t rows = normed.dim(0);
  return qkv.reshape({3 * rows, normed.dim(1), normed.dim(2)})
      .slice(index * rows, (index + 1) * rows);
}

void add_self_attention(ExecContext& ctx, const AdalnShape& shape,
                        const AdalnLayers& layers, std::int64_t column,
                        float eps, BlockBuffers& buffers,
                        kernels::ResidualStream& stream) {
  const std::int64_t width = shape.width();
  const std::int64_t shift = column;
  const std::int64_t scale = column + width;
  const std::int64_t gate = column + 2 * width;
  stream.layer_norm_modulate(ctx, shift, scale, eps,
                             buffers.normed);  // [B, N, D]
  kernels::linear(ctx, buffers.normed, layers.qkv, Activation::none,
                  buffers.qkv);  // [B, N, 3D]
  kernels::attention(ctx, {buffers.qkv, 0}, {buffers.qkv, width},
                     {buffers.qkv, 2 * width}, shape.num_heads, shape.head_dim,
                     buffers.normed);  // [B, N, D]
  stream.add_gated_linear(ctx, buffers.normed, layers.out, gate);
}

void add_feed_forward(ExecContext& ctx, const AdalnShape& shape,
                      const AdalnLayers& layers, std::int64_t column, float eps,
                      BlockBuffers& buffers, kernels::ResidualStream& stream) {
  const std::int64_t width = shape.width();
  const std::int64_t shift = column;
  const std::int64_t scale = column + width;
  const std::int64_t gate = column + 2 * width;
  stream.layer_norm_modulate(ctx, shift, scale, eps,
                             buffers.normed);  // [B, N, D]
  if (shape.feed_forward.gated) {
    kernels::linear(ctx, buffers.normed, layers.mlp_up, Activation::none,
                    buffers.gated_mlp);  // [B, N, 8D]
    kernels::activate_gated(ctx, buffers.gated_mlp,
                            shape.feed_forward.activation,
                            buffers.mlp);  // [B, N, 4D]
  } else {
    kernels::linear(ctx, buffers.normed, layers.mlp_up,
                    shape.feed_forward.activation,
                    buffers.mlp);  // [B, N, 4D]
  }
  stream.add_gated_linear(ctx, buffers.mlp, layers.mlp_down, gate);
}

}  // namespace troupe::models
