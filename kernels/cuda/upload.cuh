#pragma once

#include "kernels/copy.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {

/// A tensor of the host on ctx's device in another float type, rounded once to
/// nearest even. On the device it briefly takes its own type's memory too.
[[nodiscard]] inline Tensor upload(ExecContext& ctx, const Tensor& host,
                                   DType dtype) {
  host.check_on_host("weights");
  const Tensor stored = clone(ctx, host);
  if (stored.dtype() == dtype) {
    return stored;
  }
  Tensor converted = ctx.empty(stored.shape(), dtype);
  convert(ctx, stored, converted);
  return converted;
}

}  // namespace troupe::kernels::cuda
