#include "kernels/core/varied.h"

#include <cstddef>

#include "kernels/core/error.h"

namespace troupe {
namespace {

/// The output function of SplitMix64 (Steele, Lea and Flood 2014, OOPSLA).
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

float as_number(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-30F;
}

}  // namespace

void fill_varied(std::uint64_t seed, Tensor& out) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  require(out.dtype() == DType::f32 && out.device().kind == DeviceKind::cpu,
          Errc::internal, "fill_varied", "expected an f32 tensor on the CPU");
  float* values = out.data<float>();
  const auto count = static_cast<std::size_t>(out.num_elements());
  std::uint64_t state = mixed(seed);
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    const std::uint64_t bits = mixed(state += kStep);
    values[i] = as_number(static_cast<std::uint32_t>(bits));
    values[i + 1] = as_number(static_cast<std::uint32_t>(bits >> 32U));
  }
  if (count % 2 != 0) {
    values[count - 1] =
        as_number(static_cast<std::uint32_t>(mixed(state + kStep)));
  }
}

}  // namespace troupe
