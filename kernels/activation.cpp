#include "kernels/activation.h"

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
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
    case DeviceKind::meter:
      return;
  }
  throw_no_backend("activate", ctx.device());
}

void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out) {
  check_device("activate_gated", ctx.device(), {&x, &out});
  check_float("activate_gated", "x", x, ctx.device());
  check_float("activate_gated", "out", out, ctx.device());
  const std::size_t rank = out.shape().rank();
  bool fits = rank > 0 && x.shape().rank() == rank &&
              x.dim(rank - 1) == 2 * out.dim(rank - 1);
  for (std::size_t axis = 0; fits && axis + 1 < rank; ++axis) {
    fits = x.dim(axis) == out.dim(axis);
  }
  if (!fits) {
    throw Error(Errc::shape_mismatch, "activate_gated",
                "got x " + to_string(x.shape()) + " and out " +
                    to_string(out.shape()) + ", expected x twice as wide");
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::activate_gated(ctx, x, activation, out);
    case DeviceKind::cuda:
      return cuda::activate_gated(ctx, x, activation, out);
    case DeviceKind::meter:
      return;
  }
  throw_no_backend("activate_gated", ctx.device());
}

}  // namespace troupe::kernels
