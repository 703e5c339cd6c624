#include "models/layer_reader.h"

#include "kernels/copy.h"

namespace troupe::models {

Tensor LayerReader::tensor(const std::string& name, const Shape& shape) {
  if (!loader_) {
    specs_->push_back({name, shape});
    return {};
  }
  return loader_->source().read_f32({name, shape});
}

kernels::PackedConv2d LayerReader::conv(const std::string& name,
                                        std::int64_t out, std::int64_t in,
                                        std::int64_t size,
                                        std::int64_t stride) {
  const Tensor weight = tensor(name + ".weight", {out, in, size, size});
  const Tensor bias = tensor(name + ".bias", {out});
  if (!loader_) {
    return {};
  }
  loader_->ctx().tick(1);  // a stop ends the loading; who reads is alive
  if (!compute_) {
    return {};
  }
  kernels::PackedConv2d packed(loader_->ctx(), weight, bias, stride, size / 2,
                               *compute_);
  loader_->count(packed.num_bytes());
  return packed;
}

NormWeights LayerReader::norm(const std::string& name, std::int64_t width) {
  NormWeights norm{tensor(name + ".weight", {width}),
                   tensor(name + ".bias", {width})};
  if (!compute_) {
    return {};
  }
  norm = {kernels::on_device(loader_->ctx(), norm.weight),
          kernels::on_device(loader_->ctx(), norm.bias)};
  loader_->count(norm.weight.num_bytes() + norm.bias.num_bytes());
  return norm;
}

ResnetWeights LayerReader::resnet(const std::string& name, std::int64_t out,
                                  std::int64_t in) {
  ResnetWeights block;
  block.norm1 = norm(name + "norm1", in);
  block.conv1 = conv(name + "conv1", out, in, 3);
  block.norm2 = norm(name + "norm2", out);
  block.conv2 = conv(name + "conv2", out, out, 3);
  if (in != out) {
    block.shortcut = conv(name + "conv_shortcut", out, in, 1);
  }
  return block;
}

kernels::PackedLinear LayerReader::fused(
    const std::vector<LinearSpec>& layers) {
  if (loader_) {
    return loader_->fused(layers);
  }
  for (const LinearSpec& layer : layers) {
    append(*specs_, layer);
  }
  return {};
}

}  // namespace troupe::models
