#include "kernels/rope.h"

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {
namespace {

constexpr std::string_view kRmsNormRope = "rms_norm_rope";

void check_angles(const Tensor& cosines, const Tensor& sines,
                  const Tensor& base, std::int64_t head_dim) {
  if (head_dim % 2 != 0) {
    throw Error(Errc::shape_mismatch, kRmsNormRope,
                "columns do not pair up: got " + std::to_string(head_dim) +
                    " of a head, expected an even number");
  }
  const Shape table{base.dim(1), head_dim / 2};
  check_device(kRmsNormRope, base.device(), {&cosines, &sines});
  check_shape(kRmsNormRope, "cosines", cosines.shape(), table);
  check_dtype(kRmsNormRope, "cosines", cosines, {DType::f32});
  check_shape(kRmsNormRope, "sines", sines.shape(), table);
  check_dtype(kRmsNormRope, "sines", sines, {DType::f32});
}

}  // namespace

void rms_norm_rope(ExecContext& ctx, const Tensor& weight,
                   const Tensor& cosines, const Tensor& sines,
                   std::int64_t num_heads, std::int64_t head_dim, float eps,
                   HeadsView& x) {
  check_device(kRmsNormRope, ctx.device(), {&x.base, &weight});
  check_rank(kRmsNormRope, "x", x.base, 3);
  check_float(kRmsNormRope, "x", x.base, ctx.device());
  if (num_heads < 0 || head_dim < 0) {
    throw Error(Errc::shape_mismatch, kRmsNormRope,
                "a negative size: got " + std::to_string(num_heads) +
                    " heads of " + std::to_string(head_dim));
  }
  const std::int64_t width = Shape{num_heads, head_dim}.num_elements();
  check_columns(kRmsNormRope, "x", x.column, width, x.base.dim(2));
  check_rank(kRmsNormRope, "weight", weight, 1);
  check_dtype(kRmsNormRope, "weight", weight, {DType::f32});
  if (weight.dim(0) != head_dim) {
    check_shape(kRmsNormRope, "weight", weight.shape(), {width});
  }
  // An empty table of no tokens rotates nothing either.
  if (!cosines.empty() || !sines.empty()) {
    check_angles(cosines, sines, x.base, head_dim);
  }
  if (x.base.empty() || width == 0) {
    return;
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::rms_norm_rope(ctx, weight, cosines, sines, num_heads,
                                head_dim, eps, x);
    case DeviceKind::cuda:
      return cuda::rms_norm_rope(ctx, weight, cosines, sines, num_heads,
                                 head_dim, eps, x);
    case DeviceKind::meter:
      return;
  }
  throw_no_backend(kRmsNormRope, ctx.device());
}

}  // namespace troupe::kernels
