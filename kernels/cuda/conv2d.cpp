#include <array>
#include <map>

#include "kernels/core/error.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/dnn_batch.cuh"
#include "kernels/cuda/dnn_problems.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/upload.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr std::uintptr_t kConvReadBytes = 16;

/// The plans of one context.
struct ConvPlans {
  explicit ConvPlans(Backend& /*backend*/) {}
  std::map<ConvProblem, DnnPlans> plans;
};

/// How every item of a batch is aligned, at most as far as a read goes.
std::int64_t alignment_of(const Tensor& batch) {
  const auto first = reinterpret_cast<std::uintptr_t>(batch.bytes().data());
  const auto item = batch.num_bytes() / static_cast<std::size_t>(batch.dim(0));
  const std::uintptr_t bits = first | item | kConvReadBytes;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

ConvProblem problem_of(const Tensor& x, const ConvWeights& weights,
                       const Tensor& out) {
  return {.height = x.dim(1),
          .width = x.dim(2),
          .in_channels = x.dim(3),
          .out_channels = out.dim(3),
          .kernel_height = weights.filters.dim(1),
          .kernel_width = weights.filters.dim(2),
          .stride = weights.stride,
          .padding_y = weights.padding.top,
          .padding_x = weights.padding.left,
          .compute = x.dtype(),
          .out = out.dtype(),
          .x_alignment = alignment_of(x),
          .out_alignment = alignment_of(out)};
}

DnnOperand operand(DnnId id, DnnOperand::Role role, const Tensor& tensor,
                   std::int64_t items) {
  return {.id = id,
          .role = role,
          .dtype = tensor.dtype(),
          .elements = tensor.num_elements() / items,
          // Nothing is written through an input.
          .address = const_cast<std::byte*>(tensor.bytes().data())};
}

}  // namespace

ConvWeights pack_conv2d(ExecContext& ctx, const Tensor& weight,
                        const Tensor& bias, std::int64_t stride,
                        const Padding& padding, DType compute) {
  weight.check_on_host("weights");
  if (padding.top != padding.bottom || padding.left != padding.right) {
    throw Error(Errc::unsupported, "conv2d",
                "this GPU pads opposite sides alike");
  }
  const Tensor filters =
      upload(ctx, cpu::channels_last_weights(weight), compute);
  // Without a bias zeros are added: the same graph for all.
  const Tensor offsets =
      bias.empty() ? Tensor::zeros({weight.dim(0)}, DType::f32) : bias;
  return {.filters = filters.reshape(
              {weight.dim(0), weight.dim(2), weight.dim(3), weight.dim(1)}),
          .bias = upload(ctx, offsets, DType::f32),
          .stride = stride,
          .padding = padding};
}

void conv2d(ExecContext& ctx, const Tensor& x, const ConvWeights& weights,
            Tensor& out) {
  Backend& backend = Backend::of(ctx);
  if (out.empty()) {
    return;
  }
  const ConvProblem problem = problem_of(x, weights, out);
  auto& known = backend.state<ConvPlans>().plans;
  auto plans = known.find(problem);
  if (plans == known.end()) {
    const auto graph_of = [handle = backend.shared_state<DnnHandle>(),
                           problem](std::int64_t items) {
      return conv_graph(handle->target(), problem, items);
    };
    const DnnRules rules{.tensor_cores =
                             x.dtype() != DType::f32 || backend.options().tf32};
    plans = known.try_emplace(problem, graph_of, rules).first;
  }
  using Role = DnnOperand::Role;
  const std::array operands{
      operand(kFirstInput, Role::input, x, x.dim(0)),
      operand(kSecondInput, Role::shared, weights.filters, 1),
      operand(kThirdInput, Role::shared, weights.bias, 1),
      operand(kOutput, Role::output, out, out.dim(0))};
  if (!plans->second.run(ctx, x.dim(0), operands)) {
    throw Error(Errc::unsupported, "conv2d",
                "cuDNN cannot convolve " + to_string(x.shape()) + " by " +
                    to_string(weights.filters.shape()) + " in " +
                    std::string(to_string(x.dtype())) +
                    " on this GPU: " + plans->second.refusal(),
                "use a newer cuDNN 9, or run on the CPU (--device cpu)");
  }
}

}  // namespace troupe::kernels::cuda
