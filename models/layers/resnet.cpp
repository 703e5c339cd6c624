#include "models/layers/resnet.h"

#include "kernels/elementwise.h"
#include "kernels/norm.h"

namespace troupe::models {

ResnetWeights read_resnet(LayerReader& reader, const std::string& name,
                          std::int64_t out, std::int64_t in) {
  ResnetWeights block;
  block.norm1 = reader.norm(name + "norm1", in);
  block.conv1 = reader.conv(name + "conv1", out, in, 3);
  block.norm2 = reader.norm(name + "norm2", out);
  block.conv2 = reader.conv(name + "conv2", out, out, 3);
  if (in != out) {
    block.shortcut = reader.conv(name + "conv_shortcut", out, in, 1);
  }
  return block;
}

void run_resnet(ExecContext& ctx, const ResnetWeights& block,
                const ResnetStyle& style, const Tensor& x,
                const std::optional<ChannelShift>& shift, Tensor& out) {
  const Workspace::Scope scope(ctx.workspace());
  const auto norm = [&](const Tensor& from, const NormWeights& weights,
                        Tensor& to) {
    kernels::group_norm(ctx, from, weights.weight, weights.bias,
                        style.num_groups, style.eps, style.activation, to);
  };
  Tensor normed = ctx.workspace().take(x.shape(), x.dtype());
  norm(x, block.norm1, normed);
  Tensor hidden = ctx.workspace().take(out.shape(), x.dtype());
  kernels::conv2d(ctx, normed, block.conv1, hidden);
  ctx.tick(0);  // of large pictures one convolution takes long
  if (shift) {
    kernels::add_channels(ctx, shift->vectors, shift->column, hidden);
  }
  norm(hidden, block.norm2, hidden);
  kernels::conv2d(ctx, hidden, block.conv2, out);
  if (block.shortcut) {
    kernels::conv2d(ctx, x, *block.shortcut, hidden);
    kernels::add(ctx, hidden, out);
  } else {
    kernels::add(ctx, x, out);
  }
}

}  // namespace troupe::models
