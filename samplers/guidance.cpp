#include "samplers/guidance.h"

#include <string>

#include "kernels/core/error.h"
#include "kernels/elementwise.h"

namespace troupe::samplers {

void combine_guidance(ExecContext& ctx, const Tensor& cond,
                      const Tensor& uncond, double scale,
                      std::int64_t guided_channels, Tensor& out) {
  const Shape& shape = cond.shape();
  if (shape.rank() == 0 || !(uncond.shape() == shape) ||
      !(out.shape() == shape)) {
    throw Error(Errc::shape_mismatch, "guidance",
                "got " + to_string(shape) + ", " + to_string(uncond.shape()) +
                    " and " + to_string(out.shape()) +
                    ", expected three equal [C, …]");
  }
  if (guided_channels < 0 || guided_channels > shape[0]) {
    throw Error(Errc::invalid_argument, "guidance",
                "guided channels: got " + std::to_string(guided_channels) +
                    ", expected 0 to " + std::to_string(shape[0]));
  }
  kernels::guide(ctx, cond, uncond, scale, guided_channels, out);
}

}  // namespace troupe::samplers
