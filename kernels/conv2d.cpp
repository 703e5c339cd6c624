#include "kernels/conv2d.h"

#include "kernels/check.h"
#include "kernels/cpu/conv2d.h"
#include "kernels/cuda/ops.h"
#include "kernels/linear.h"

namespace troupe::kernels {

PackedConv2d::PackedConv2d() = default;
PackedConv2d::~PackedConv2d() = default;
PackedConv2d::PackedConv2d(PackedConv2d&&) noexcept = default;
PackedConv2d& PackedConv2d::operator=(PackedConv2d&&) noexcept = default;

PackedConv2d::PackedConv2d(ExecContext& ctx, const Tensor& weight,
                           const Tensor& bias, std::int64_t stride,
                           std::int64_t padding, DType compute) {
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
  if (stride < 1 || padding < 0) {
    throw Error(Errc::invalid_argument, "conv2d",
                "impossible geometry: got stride " + std::to_string(stride) +
                    ", padding " + std::to_string(padding) +
                    ", expected at least 1 and 0");
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      if (!supports(compute)) {
        throw Error(Errc::unsupported, "conv2d",
                    "this CPU cannot multiply " +
                        std::string(to_string(compute)) + " matrices",
                    "use --dtype f32");
      }
      impl_ = std::make_unique<Impl>(
          Impl{.matrix = cpu::PackedMatrix(
                   ctx, cpu::channels_last_weights(weight), bias, compute),
               .in_channels = weight.dim(1),
               .kernel_height = weight.dim(2),
               .kernel_width = weight.dim(3),
               .stride = stride,
               .padding = padding});
      return;
    case DeviceKind::cuda:
      break;
  }
  throw_no_backend("conv2d", ctx.device());
}

std::int64_t PackedConv2d::in_channels() const noexcept {
  return impl_ ? impl_->in_channels : 0;
}

std::int64_t PackedConv2d::out_channels() const noexcept {
  return impl_ ? impl_->matrix.rows() : 0;
}

std::size_t PackedConv2d::num_bytes() const noexcept {
  return impl_ ? impl_->matrix.num_bytes() : 0;
}

void conv2d(ExecContext& ctx, const Tensor& x, const PackedConv2d& packed,
            Tensor& out) {
  check_device("conv2d", ctx.device(), {&x, &out});
  if (packed.impl() == nullptr) {
    throw Error(Errc::invalid_argument, "conv2d", "the weights are empty");
  }
  const PackedConv2d::Impl& conv = *packed.impl();
  check_rank("conv2d", "x", x, 4);
  check_dtype("conv2d", "x", x, {conv.matrix.compute()});
  check_dtype("conv2d", "out", out, {DType::f32, conv.matrix.compute()});
  check_shape("conv2d", "x", x.shape(),
              {x.dim(0), x.dim(1), x.dim(2), conv.in_channels});
  const std::int64_t room_y = x.dim(1) + 2 * conv.padding - conv.kernel_height;
  const std::int64_t room_x = x.dim(2) + 2 * conv.padding - conv.kernel_width;
  if (room_y < 0 || room_x < 0) {
    throw Error(Errc::shape_mismatch, "conv2d",
                "image smaller than the kernel: got " + to_string(x.shape()) +
                    ", expected at least " +
                    std::to_string(conv.kernel_height) + " × " +
                    std::to_string(conv.kernel_width) + " with padding");
  }
  check_shape("conv2d", "out", out.shape(),
              {x.dim(0), room_y / conv.stride + 1, room_x / conv.stride + 1,
               conv.matrix.rows()});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::conv2d(ctx, x, conv, out);
    case DeviceKind::cuda:
      break;
  }
  throw_no_backend("conv2d", ctx.device());
}

void upsample_nearest2x(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_device("upsample", ctx.device(), {&x, &out});
  check_rank("upsample", "x", x, 4);
  check_dtype("upsample", "out", out, {x.dtype()});
  check_shape("upsample", "out", out.shape(),
              {x.dim(0), 2 * x.dim(1), 2 * x.dim(2), x.dim(3)});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::upsample_nearest2x(ctx, x, out);
    case DeviceKind::cuda:
      return cuda::upsample_nearest2x(ctx, x, out);
  }
}

}  // namespace troupe::kernels
