#include "kernels/core/varied.h"

#include <cstddef>

#include "kernels/core/error.h"
#include "kernels/core/split_mix.h"

namespace troupe {
namespace {

float as_number(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-30F;
}

}  // namespace

void fill_varied(std::uint64_t seed, Tensor& out) {
  require(out.dtype() == DType::f32 && out.device().kind == DeviceKind::cpu,
          Errc::internal, "fill_varied", "expected an f32 tensor on the CPU");
  float* values = out.data<float>();
  const auto count = static_cast<std::size_t>(out.num_elements());
  std::uint64_t state = split_mix(seed);
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    const std::uint64_t bits = split_mix(state += kSplitMixStep);
    values[i] = as_number(static_cast<std::uint32_t>(bits));
    values[i + 1] = as_number(static_cast<std::uint32_t>(bits >> 32U));
  }
  if (count % 2 != 0) {
    values[count - 1] =
        as_number(static_cast<std::uint32_t>(split_mix(state + kSplitMixStep)));
  }
}

}  // namespace troupe
