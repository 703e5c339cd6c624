#include "kernels/patchify.h"

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {
namespace {

/// image [B, C, H, W]; tokens [B, (H/p)·(W/p), C·p·p].
void check_patches(std::string_view place, const Tensor& image,
                   std::int64_t patch_size, const Tensor& tokens) {
  check_rank(place, "the image", image, 4);
  const std::int64_t p = patch_size;
  if (p < 1 || image.dim(2) % p != 0 || image.dim(3) % p != 0) {
    throw Error(Errc::shape_mismatch, place,
                "patches do not tile the image: got patch size " +
                    std::to_string(p) + " for " + to_string(image.shape()) +
                    ", expected a divisor of both sides");
  }
  check_shape(place, "the tokens", tokens.shape(),
              {image.dim(0), image.dim(2) / p * (image.dim(3) / p),
               image.dim(1) * p * p});
}

/// What activations may be: f16 is for the arithmetic of GPUs.
void check_activations(std::string_view place, std::string_view what,
                       Device device, const Tensor& tensor) {
  if (device.kind != DeviceKind::cpu) {
    check_dtype(place, what, tensor, {DType::f32, DType::bf16, DType::f16});
  } else {
    check_dtype(place, what, tensor, {DType::f32, DType::bf16});
  }
}

}  // namespace

void patchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
              Tensor& out) {
  check_device("patchify", ctx.device(), {&x, &out});
  check_dtype("patchify", "x", x, {DType::f32});
  check_activations("patchify", "out", ctx.device(), out);
  check_patches("patchify", x, patch_size, out);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::patchify(x, patch_size, out);
    case DeviceKind::cuda:
      return cuda::patchify(ctx, x, patch_size, out);
    case DeviceKind::meter:
      return;
  }
}

void unpatchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
                Tensor& out) {
  check_device("unpatchify", ctx.device(), {&x, &out});
  check_dtype("unpatchify", "x", x, {DType::f32});
  check_dtype("unpatchify", "out", out, {DType::f32});
  check_patches("unpatchify", out, patch_size, x);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::unpatchify(x, patch_size, out);
    case DeviceKind::cuda:
      return cuda::unpatchify(ctx, x, patch_size, out);
    case DeviceKind::meter:
      return;
  }
}

void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_device("to_channels_last", ctx.device(), {&x, &out});
  check_rank("to_channels_last", "x", x, 4);
  check_dtype("to_channels_last", "x", x, {DType::f32});
  check_activations("to_channels_last", "out", ctx.device(), out);
  check_shape("to_channels_last", "out", out.shape(),
              {x.dim(0), x.dim(2), x.dim(3), x.dim(1)});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::to_channels_last(ctx, x, out);
    case DeviceKind::cuda:
      return cuda::to_channels_last(ctx, x, out);
    case DeviceKind::meter:
      return;
  }
}

void to_channels_first(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_device("to_channels_first", ctx.device(), {&x, &out});
  check_rank("to_channels_first", "x", x, 4);
  check_activations("to_channels_first", "x", ctx.device(), x);
  check_dtype("to_channels_first", "out", out, {DType::f32});
  check_shape("to_channels_first", "out", out.shape(),
              {x.dim(0), x.dim(3), x.dim(1), x.dim(2)});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::to_channels_first(ctx, x, out);
    case DeviceKind::cuda:
      return cuda::to_channels_first(ctx, x, out);
    case DeviceKind::meter:
      return;
  }
}

}  // namespace troupe::kernels
