#include "kernels/conv2d.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"
#include "kernels/linear.h"

namespace troupe::kernels {
namespace {

/// Of a meter.
struct MeteredFilters {
  std::size_t num_bytes = 0;
};

}  // namespace

/// The weights where they will be used, and what the checks look at.
struct PackedConv2d::Impl {
  std::variant<cpu::ConvWeights, cuda::ConvWeights, MeteredFilters> weights;
  DType compute;
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  std::int64_t stride;
  Padding padding;
};

namespace {

std::string to_string(const Padding& padding) {
  return std::to_string(padding.top) + " (top), " +
         std::to_string(padding.bottom) + " (bottom), " +
         std::to_string(padding.left) + " (left), " +
         std::to_string(padding.right) + " (right)";
}

cpu::ConvWeights pack_on_cpu(ExecContext& ctx, const Tensor& weight,
                             const Tensor& bias, std::int64_t stride,
                             const Padding& padding, DType compute) {
  if (!supports(compute)) {
    throw Error(Errc::unsupported, "conv2d",
                "this CPU cannot multiply " + std::string(to_string(compute)) +
                    " matrices",
                "use --dtype f32");
  }
  return {.matrix = cpu::PackedMatrix(ctx, cpu::channels_last_weights(weight),
                                      bias, compute),
          .in_channels = weight.dim(1),
          .kernel_height = weight.dim(2),
          .kernel_width = weight.dim(3),
          .stride = stride,
          .padding = padding};
}

void meter_conv2d(ExecContext& ctx, const PackedConv2d::Impl& conv,
                  const Tensor& x, const Tensor& out) {
  const std::int64_t patch =
      conv.kernel_height * conv.kernel_width * conv.in_channels;
  ctx.meter().add_flops(2.0 * static_cast<double>(out.num_elements()) *
                        static_cast<double>(patch));
  if (ctx.kind() == DeviceKind::cpu) {
    ctx.meter().note_convolution(conv2d_thread_bytes(patch, conv.compute));
    return;
  }
  // The GPU's copy with zeros.
  const std::int64_t rows = std::abs(conv.padding.top - conv.padding.bottom);
  const std::int64_t columns = std::abs(conv.padding.left - conv.padding.right);
  if (rows + columns > 0) {
    const Workspace::Scope scope(ctx.workspace());
    (void)ctx.workspace().take(
        {x.dim(0), x.dim(1) + rows, x.dim(2) + columns, x.dim(3)}, x.dtype());
  }
}

}  // namespace

PackedConv2d::PackedConv2d() = default;
PackedConv2d::~PackedConv2d() = default;
PackedConv2d::PackedConv2d(PackedConv2d&&) noexcept = default;
PackedConv2d& PackedConv2d::operator=(PackedConv2d&&) noexcept = default;

PackedConv2d::PackedConv2d(ExecContext& ctx, const Tensor& weight,
                           const Tensor& bias, std::int64_t stride,
                           const Padding& padding, DType compute) {
  check_rank("conv2d", "weight", weight, 4);
  check_dtype("conv2d", "weight", weight,
              {DType::f32, DType::bf16, DType::f16});
  if (weight.empty()) {
    throw Error(Errc::shape_mismatch, "conv2d",
                "empty weights: got " + to_string(weight.shape()) +
                    ", expected at least [1, 1, 1, 1]");
  }
  if (!bias.empty()) {
    check_shape("conv2d", "bias", bias.shape(), {weight.dim(0)});
    check_dtype("conv2d", "bias", bias, {DType::f32, DType::bf16, DType::f16});
  }
  if (stride < 1 || std::min({padding.top, padding.bottom, padding.left,
                              padding.right}) < 0) {
    throw Error(Errc::invalid_argument, "conv2d",
                "impossible geometry: got stride " + std::to_string(stride) +
                    ", padding " + to_string(padding) +
                    ", expected at least 1 and 0");
  }
  if (compute != DType::f32 && compute != DType::bf16 &&
      compute != DType::f16) {
    throw Error(Errc::invalid_argument, "conv2d",
                "wrong compute type: got " + std::string(to_string(compute)) +
                    ", expected f32 or bf16 or f16");
  }
  Impl impl{.weights = {},
            .compute = compute,
            .in_channels = weight.dim(1),
            .out_channels = weight.dim(0),
            .kernel_height = weight.dim(2),
            .kernel_width = weight.dim(3),
            .stride = stride,
            .padding = padding};
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      impl.weights = pack_on_cpu(ctx, weight, bias, stride, padding, compute);
      break;
    case DeviceKind::cuda:
      impl.weights =
          cuda::pack_conv2d(ctx, weight, bias, stride, padding, compute);
      break;
    case DeviceKind::meter:
      impl.weights = MeteredFilters{static_cast<std::size_t>(
          weight.num_elements() * static_cast<std::int64_t>(size_of(compute)) +
          bias.num_elements() * static_cast<std::int64_t>(sizeof(float)))};
      break;
  }
  impl_ = std::make_unique<Impl>(std::move(impl));
}

std::int64_t PackedConv2d::in_channels() const noexcept {
  return impl_ ? impl_->in_channels : 0;
}

std::int64_t PackedConv2d::out_channels() const noexcept {
  return impl_ ? impl_->out_channels : 0;
}

std::size_t PackedConv2d::num_bytes() const noexcept {
  if (!impl_) {
    return 0;
  }
  if (const auto* conv = std::get_if<cpu::ConvWeights>(&impl_->weights)) {
    return conv->matrix.num_bytes();
  }
  if (const auto* metered = std::get_if<MeteredFilters>(&impl_->weights)) {
    return metered->num_bytes;
  }
  const auto& conv = std::get<cuda::ConvWeights>(impl_->weights);
  return conv.filters.num_bytes() + conv.bias.num_bytes();
}

void conv2d(ExecContext& ctx, const Tensor& x, const PackedConv2d& packed,
            Tensor& out) {
  check_device("conv2d", ctx.device(), {&x, &out});
  if (packed.impl() == nullptr) {
    throw Error(Errc::invalid_argument, "conv2d", "the weights are empty");
  }
  const PackedConv2d::Impl& conv = *packed.impl();
  check_rank("conv2d", "x", x, 4);
  check_dtype("conv2d", "x", x, {conv.compute});
  check_dtype("conv2d", "out", out, {DType::f32, conv.compute});
  check_shape("conv2d", "x", x.shape(),
              {x.dim(0), x.dim(1), x.dim(2), conv.in_channels});
  const Padding& padding = conv.padding;
  const std::int64_t room_y =
      padding.top + x.dim(1) + padding.bottom - conv.kernel_height;
  const std::int64_t room_x =
      padding.left + x.dim(2) + padding.right - conv.kernel_width;
  if (room_y < 0 || room_x < 0) {
    throw Error(Errc::shape_mismatch, "conv2d",
                "image smaller than the kernel: got " + to_string(x.shape()) +
                    ", expected at least " +
                    std::to_string(conv.kernel_height) + " × " +
                    std::to_string(conv.kernel_width) + " with padding " +
                    to_string(padding));
  }
  check_shape("conv2d", "out", out.shape(),
              {x.dim(0), room_y / conv.stride + 1, room_x / conv.stride + 1,
               conv.out_channels});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      if (const auto* on_cpu = std::get_if<cpu::ConvWeights>(&conv.weights)) {
        return cpu::conv2d(ctx, x, *on_cpu, out);
      }
      break;
    case DeviceKind::cuda:
      if (const auto* on_gpu = std::get_if<cuda::ConvWeights>(&conv.weights)) {
        return cuda::conv2d(ctx, x, *on_gpu, out);
      }
      break;
    case DeviceKind::meter:
      if (std::holds_alternative<MeteredFilters>(conv.weights)) {
        return meter_conv2d(ctx, conv, x, out);
      }
      break;
  }
  throw Error(Errc::invalid_argument, "conv2d",
              "the weights were packed for another device than " +
                  to_string(ctx.device()));
}

void upsample_nearest2x(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_device("upsample", ctx.device(), {&x, &out});
  check_rank("upsample", "x", x, 4);
  check_dtype("upsample", "out", out, {x.dtype()});
  check_rank("upsample", "out", out, 4);
  const auto side = [&](std::size_t axis) {
    const std::int64_t doubled = 2 * x.dim(axis);
    return x.dim(axis) > 0 && out.dim(axis) == doubled - 1 ? doubled - 1
                                                           : doubled;
  };
  check_shape("upsample", "out", out.shape(),
              {x.dim(0), side(1), side(2), x.dim(3)});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::upsample_nearest2x(ctx, x, out);
    case DeviceKind::cuda:
      return cuda::upsample_nearest2x(ctx, x, out);
    case DeviceKind::meter:
      return;
  }
}

void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out) {
  check_device("concat", ctx.device(), {&a, &b, &out});
  const std::size_t rank = a.shape().rank();
  require(rank > 0 && b.shape().rank() == rank, Errc::shape_mismatch, "concat",
          "b: got rank " + std::to_string(b.shape().rank()) + ", expected " +
              std::to_string(rank) + ", at least 1");
  const auto with_last = [&](std::int64_t last) {
    std::vector<std::int64_t> extents(a.shape().extents().begin(),
                                      a.shape().extents().end());
    extents.back() = last;
    return Shape(extents);
  };
  check_shape("concat", "b", b.shape(), with_last(b.dim(rank - 1)));
  check_dtype("concat", "b", b, {a.dtype()});
  check_dtype("concat", "out", out, {a.dtype()});
  check_shape("concat", "out", out.shape(),
              with_last(a.dim(rank - 1) + b.dim(rank - 1)));
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::concat_channels(ctx, a, b, out);
    case DeviceKind::cuda:
      return cuda::concat_channels(ctx, a, b, out);
    case DeviceKind::meter:
      return;
  }
}

std::size_t conv2d_thread_bytes(std::int64_t columns, DType compute) {
  return cpu::conv2d_thread_bytes(columns, compute);
}

}  // namespace troupe::kernels
