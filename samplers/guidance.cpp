#include "samplers/guidance.h"

#include <cstddef>
#include <string>

#include "kernels/core/error.h"

namespace troupe::samplers {

void combine_guidance(const Tensor& cond, const Tensor& uncond, double scale,
                      std::int64_t guided_channels, Tensor& out) {
  const Shape& shape = cond.shape();
  if (shape.rank() != 3 || !(uncond.shape() == shape) ||
      !(out.shape() == shape)) {
    throw Error(Errc::shape_mismatch, "guidance",
                "got " + to_string(shape) + ", " + to_string(uncond.shape()) +
                    " and " + to_string(out.shape()) +
                    ", expected three equal [C, H, W]");
  }
  if (guided_channels < 0 || guided_channels > shape[0]) {
    throw Error(Errc::invalid_argument, "guidance",
                "guided channels: got " + std::to_string(guided_channels) +
                    ", expected 0 to " + std::to_string(shape[0]));
  }
  const auto c = cond.span<float>();
  const auto u = uncond.span<float>();
  const auto o = out.span<float>();
  const auto s = static_cast<float>(scale);
  const auto guided =
      static_cast<std::size_t>(guided_channels * shape[1] * shape[2]);
  for (std::size_t i = 0; i < guided; ++i) {
    o[i] = u[i] + s * (c[i] - u[i]);
  }
  for (std::size_t i = guided; i < o.size(); ++i) {
    o[i] = c[i];
  }
}

}  // namespace troupe::samplers
