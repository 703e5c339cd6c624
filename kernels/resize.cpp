#include "kernels/resize.h"

#include "kernels/check.h"
#include "kernels/cpu/ops.h"

namespace troupe::kernels {

void resize_and_crop(ExecContext& ctx, const Tensor& x, Tensor& out) {
  constexpr const char* kPlace = "resize_and_crop";
  check_device(kPlace, Device(), {&x, &out});
  check_dtype(kPlace, "x", x, {DType::f32});
  check_dtype(kPlace, "out", out, {DType::f32});
  check_rank(kPlace, "x", x, 3);
  check_rank(kPlace, "out", out, 3);
  check_shape(kPlace, "out", out.shape(), {x.dim(0), out.dim(1), out.dim(2)});
  require(x.num_elements() > 0 && out.num_elements() > 0, Errc::shape_mismatch,
          kPlace, "a picture without pixels");
  cpu::resize_and_crop(ctx, x, out);
}

}  // namespace troupe::kernels
