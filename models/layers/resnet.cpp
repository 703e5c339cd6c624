#include "models/layers/resnet.h"

#include "kernels/elementwise.h"

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

void run_resnet(ImagePass& pass, const ResnetWeights& block,
                const GroupNormStyle& style, const Tensor& x,
                const kernels::ImagePart& image,
                const std::optional<ChannelShift>& shift, Tensor& out) {
  ExecContext& ctx = pass.ctx();
  const Workspace::Scope scope(ctx.workspace());
  Tensor hidden = ctx.workspace().take(out.shape(), x.dtype());
  pass.norm_conv(x, image, block.norm1, style, block.conv1, hidden);
  ctx.tick(0);  // of large pictures one convolution takes long
  if (shift) {
    kernels::add_channels(ctx, shift->vectors, shift->column, hidden);
  }
  pass.norm_conv_over(hidden, image, block.norm2, style, block.conv2, out);
  if (block.shortcut) {
    pass.conv(x, image, *block.shortcut, image, hidden);
    kernels::add(ctx, hidden, out);
  } else {
    kernels::add(ctx, x, out);
  }
}

}  // namespace troupe::models
