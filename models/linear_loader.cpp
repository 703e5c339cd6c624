#include "models/linear_loader.h"

#include "kernels/copy.h"

namespace troupe::models {

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

void append(std::vector<TensorSpec>& specs, const LinearSpec& spec) {
  specs.push_back(spec.weight);
  if (!spec.bias.name.empty()) {
    specs.push_back(spec.bias);
  }
}

kernels::PackedLinear LinearLoader::linear(const LinearSpec& spec) {
  Tensor weight = source_.read_to_pack({&spec.weight, 1});
  const std::int64_t out = weight.dim(0);
  weight = weight.reshape(Shape{out, weight.num_elements() / out});
  const Tensor bias =
      spec.bias.name.empty() ? Tensor() : source_.read(spec.bias);
  return pack(weight, bias);
}

kernels::PackedLinear LinearLoader::fused(std::span<const LinearSpec> specs) {
  std::vector<TensorSpec> weights;
  std::vector<TensorSpec> biases;
  for (const LinearSpec& spec : specs) {
    weights.push_back(spec.weight);
    if (!spec.bias.name.empty()) {
      biases.push_back(spec.bias);
    }
  }
  const Tensor weight = source_.read_to_pack(weights);
  const Tensor bias =
      biases.empty() ? Tensor() : source_.read_concatenated(biases);
  return pack(weight, bias);
}

kernels::PackedLinear LinearLoader::pack(const Tensor& weight,
                                         const Tensor& bias) {
  ctx_.tick(1);  // a stop ends the loading; a worker that reads is alive
  if (!compute_) {
    return {};
  }
  kernels::PackedLinear packed(ctx_, weight, bias, *compute_);
  num_bytes_ += packed.num_bytes();
  return packed;
}

Tensor LinearLoader::table(const TensorSpec& spec) {
  ctx_.tick(1);
  const Tensor table = source_.read_f32(spec);
  num_bytes_ += table.num_bytes();
  return kernels::on_device(ctx_, table);
}

}  // namespace troupe::models
