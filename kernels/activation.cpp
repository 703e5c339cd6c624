#include "kernels/activation.h"

#include "kernels/check.h"
#include "kernels/cpu/activation.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {

void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out) {
  check_device("activate", ctx.device(), {&x, &out});
  check_float("activate", "x", x, ctx.device());
  check_float("activate", "out", out, ctx.device());
  check_shape("activate", "out", out.shape(), x.shape());
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::activate(ctx, x, activation, out);
    case DeviceKind::cuda:
      return cuda::activate(ctx, x, activation, out);
  }
  throw_no_backend("activate", ctx.device());
}

void softmax(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_device("softmax", ctx.device(), {&x, &out});
  check_dtype("softmax", "x", x, {DType::f32});
  check_dtype("softmax", "out", out, {DType::f32});
  check_shape("softmax", "out", out.shape(), x.shape());
  if (x.shape().rank() < 1) {
    throw Error(Errc::shape_mismatch, "softmax",
                "wrong rank of x: got [], expected at least 1 axis");
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::softmax(ctx, x, out);
    case DeviceKind::cuda:
      return cuda::softmax(ctx, x, out);
  }
  throw_no_backend("softmax", ctx.device());
}

}  // namespace troupe::kernels
