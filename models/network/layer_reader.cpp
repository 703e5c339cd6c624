#include "models/network/layer_reader.h"

#include <algorithm>

#include "kernels/copy.h"

namespace troupe::models {
namespace {

Shape as_matrix(const Shape& shape) {
  return {shape[0], shape.num_elements() / shape[0]};
}

}  // namespace

LinearSpec linear_spec(const std::string& name, std::int64_t out,
                       std::int64_t in, bool bias) {
  return {{name + ".weight", Shape{out, in}},
          {bias ? name + ".bias" : std::string(), Shape{out}}};
}

AttentionSpec attention_spec(const std::string& name, std::int64_t width,
                             bool bias) {
  return {linear_spec(name + ".to_q", width, width, bias),
          linear_spec(name + ".to_k", width, width, bias),
          linear_spec(name + ".to_v", width, width, bias),
          linear_spec(name + ".to_out.0", width, width)};
}

std::string block_name(std::int64_t index) {
  return "transformer_blocks." + std::to_string(index) + ".";
}

kernels::PackedLinear LayerReader::fused(
    const std::vector<LinearSpec>& layers) {
  std::vector<TensorSpec> weights;
  std::vector<TensorSpec> biases;
  std::int64_t rows = 0;
  for (const LinearSpec& layer : layers) {
    weights.push_back(layer.weight);
    rows += layer.weight.shape[0];
    if (!layer.bias.name.empty()) {
      biases.push_back(layer.bias);
    }
  }
  if (lists()) {
    specs_->insert(specs_->end(), weights.begin(), weights.end());
    specs_->insert(specs_->end(), biases.begin(), biases.end());
    return {};
  }
  if (meters()) {
    return pack(ctx_->empty({rows, as_matrix(weights[0].shape)[1]}, *compute_),
                biases.empty() ? Tensor() : ctx_->empty({rows}, DType::f32));
  }
  const Tensor weight = source_->read_to_pack(weights);
  const Tensor bias =
      biases.empty() ? Tensor() : source_->read_concatenated(biases);
  return pack(weight.reshape(as_matrix(weight.shape())), bias);
}

kernels::PackedConv2d LayerReader::conv(const std::string& name,
                                        std::int64_t out, std::int64_t in,
                                        std::int64_t size,
                                        std::int64_t stride) {
  const TensorSpec weight_spec{name + ".weight", {out, in, size, size}};
  const TensorSpec bias_spec{name + ".bias", {out}};
  const auto read = [&](const TensorSpec& spec) {
    return meters() ? ctx_->empty(spec.shape, DType::f32) : f32(spec);
  };
  const Tensor weight = read(weight_spec);
  const Tensor bias = read(bias_spec);
  if (lists()) {
    return {};
  }
  ctx_->tick(1);  // a stop ends the loading; who reads is alive
  if (!packs()) {
    return {};
  }
  kernels::PackedConv2d packed(*ctx_, weight, bias, stride,
                               kernels::Padding::all(size / 2), *compute_);
  count(packed.num_bytes());
  return packed;
}

NormWeights LayerReader::norm(const std::string& name, std::int64_t width) {
  // Braces keep the order.
  return NormWeights{table({name + ".weight", {width}}),
                     table({name + ".bias", {width}})};
}

Tensor LayerReader::table(const TensorSpec& spec) {
  const Tensor values =
      meters() ? ctx_->empty(spec.shape, DType::f32) : f32(spec);
  return lists() ? Tensor() : upload(values);
}

Tensor LayerReader::host_table(const TensorSpec& spec, bool as_f32) {
  Tensor values = meters() ? ctx_->empty(spec.shape, DType::f32)
                  : as_f32 ? f32(spec)
                           : stored(spec);
  if (lists()) {
    return {};
  }
  ctx_->tick(1);
  if (!packs()) {
    return {};
  }
  count(values.num_bytes());
  host_bytes_ += values.num_bytes();
  return values;
}

Tensor LayerReader::stored(const TensorSpec& spec) {
  if (lists()) {
    specs_->push_back(spec);
    return {};
  }
  return meters() ? Tensor(spec.shape, DType::f32) : source_->read(spec);
}

Tensor LayerReader::f32(const TensorSpec& spec) {
  if (lists()) {
    specs_->push_back(spec);
    return {};
  }
  return meters() ? Tensor(spec.shape, DType::f32) : source_->read_f32(spec);
}

kernels::PackedLinear LayerReader::pack(const Tensor& weight,
                                        const Tensor& bias) {
  if (lists()) {
    return {};
  }
  ctx_->tick(1);
  if (!packs()) {
    return {};
  }
  kernels::PackedLinear packed(*ctx_, weight, bias, *compute_);
  count(packed.num_bytes());
  return packed;
}

Tensor LayerReader::upload(const Tensor& values) {
  if (!packs()) {
    return {};
  }
  count(values.num_bytes());
  return kernels::on_device(*ctx_, values);
}

void LayerReader::count(std::size_t bytes) {
  num_bytes_ += bytes;
  if (in_block_) {
    block_bytes_.back() += bytes;
  }
}

void LayerReader::offload(
    std::initializer_list<kernels::PackedLinear*> layers) {
  if (!packs() || placement_ == WeightPlacement::resident) {
    return;
  }
  std::size_t group = 0;
  for (const kernels::PackedLinear* layer : layers) {
    group +=
        static_cast<std::size_t>(layer->in_features() * layer->out_features()) *
        size_of(*compute_);
  }
  offloaded_bytes_ += group;
  largest_offloaded_ = std::max(largest_offloaded_, group);
  offloaded_.add(*ctx_, layers);
}

}  // namespace troupe::models
