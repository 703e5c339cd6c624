#pragma once

#include "kernels/copy.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {

/// Copies `host` to ctx's device and converts it to `dtype` (f32, bf16 or f16),
/// rounded to nearest even. During the conversion both copies take memory on
/// the device.
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
