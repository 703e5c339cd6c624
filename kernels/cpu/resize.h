#pragma once

#include "kernels/resize.h"

namespace troupe::kernels::cpu {

/// As in kernels/resize.h; arguments are checked by the caller.
void resize_and_crop(ExecContext& ctx, const Tensor& x, Tensor& out);

}  // namespace troupe::kernels::cpu
