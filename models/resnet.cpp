#include "models/resnet.h"

#include "kernels/elementwise.h"
#include "kernels/norm.h"

namespace troupe::models {

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
