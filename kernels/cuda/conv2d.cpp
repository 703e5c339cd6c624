#include <algorithm>
#include <array>
#include <map>

#include "kernels/core/error.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/dnn_batch.cuh"
#include "kernels/cuda/dnn_problems.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pad.cuh"
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

/// The zeros that cuDNN is not asked for, because opposite sides differ.
///
/// Its graphs can name a padding before and one after each axis. Which engines
/// take unequal ones is not documented. cuDNN 9.19 does not offer them engine
/// 11, which it takes for f32 with equal padding on an A100. TensorFlow and XLA
/// (conv_padding_legalization) copy such images for cuDNN, too.
Padding own_padding(const Padding& padding) {
  const std::int64_t y = std::min(padding.top, padding.bottom);
  const std::int64_t x = std::min(padding.left, padding.right);
  return {padding.top - y, padding.bottom - y, padding.left - x,
          padding.right - x};
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
          .padding_y = std::min(weights.padding.top, weights.padding.bottom),
          .padding_x = std::min(weights.padding.left, weights.padding.right),
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
  const Workspace::Scope scope(ctx.workspace());
  const Padding own = own_padding(weights.padding);
  const Tensor image = own == Padding{} ? x : padded_copy(ctx, x, own);
  const ConvProblem problem = problem_of(image, weights, out);
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
      operand(kFirstInput, Role::input, image, image.dim(0)),
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
