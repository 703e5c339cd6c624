#include "kernels/core/pixel_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/core/error.h"

namespace troupe {

Tensor pixel_bytes(const Tensor& pixels) {
  Tensor bytes(pixels.shape(), DType::u8);
  const float* const from = pixels.data<float>();
  auto* const to = reinterpret_cast<std::uint8_t*>(bytes.bytes().data());
  const std::int64_t count = pixels.shape().num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    require(std::isfinite(from[i]), Errc::non_finite, "pixels",
            "a pixel is NaN or infinite");
    const float unit = std::clamp(from[i] * 0.5F + 0.5F, 0.0F, 1.0F);
    to[i] = static_cast<std::uint8_t>(std::nearbyint(unit * 255.0F));
  }
  return bytes;
}

}  // namespace troupe
