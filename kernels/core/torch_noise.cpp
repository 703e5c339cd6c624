#include "kernels/core/torch_noise.h"

#include <cmath>
#include <cstddef>
#include <span>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/polynomials.h"

namespace troupe {
namespace {

// MT19937 (Matsumoto & Nishimura 1998): word and middle distances, twist.
constexpr std::size_t kWords = 624;
constexpr std::size_t kMiddle = 397;
constexpr std::uint32_t kTwist = 0x9908b0dfU;

// torch transforms normals in groups of 16: 8 magnitudes, then 8 angles.
constexpr std::size_t kGroup = 16;
constexpr std::size_t kHalf = kGroup / 2;

// Uniforms in, normals out. Every intermediate that torch rounds to float is
// rounded here too: an angle kept in double would be 1e-6 away at the tails.
void transform_group(std::span<float, kGroup> values) {
  constexpr auto kTwoPi = static_cast<float>(6.283185307179586);
  for (std::size_t i = 0; i < kHalf; ++i) {
    const float u = 1.0F - values[i];  // (0, 1]
    const float theta = kTwoPi * values[i + kHalf];
    const auto log_u = static_cast<float>(detail::log_positive(u));
    const auto radius = std::sqrt(-2.0F * log_u);
    const detail::SinCos angle = detail::sin_cos(theta);
    values[i] = radius * static_cast<float>(angle.cos);
    values[i + kHalf] = radius * static_cast<float>(angle.sin);
  }
}

}  // namespace

TorchGenerator::TorchGenerator(std::uint64_t seed) {
  state_[0] = static_cast<std::uint32_t>(seed);
  for (std::size_t i = 1; i < kWords; ++i) {
    const std::uint32_t previous = state_[i - 1];
    state_[i] = 1812433253U * (previous ^ (previous >> 30U)) +
                static_cast<std::uint32_t>(i);
  }
}

void TorchGenerator::fill_normal(Tensor& out) {
  if (out.dtype() != DType::f32 || out.device().kind != DeviceKind::cpu) {
    throw Error(Errc::internal, "noise",
                "wrong output: got " + std::string(to_string(out.dtype())) +
                    " on " + to_string(out.device()) + ", expected f32 on cpu");
  }
  const std::span<float> values = out.span<float>();
  if (values.size() < kGroup) {
    for (float& value : values) {
      value = static_cast<float>(next_normal());
    }
    return;
  }
  const auto draw = [this](std::span<float> uniforms) {
    for (float& value : uniforms) {
      value = static_cast<float>(next() & 0xffffffU) * 0x1p-24F;
    }
  };
  draw(values);
  for (std::size_t i = 0; i + kGroup <= values.size(); i += kGroup) {
    transform_group(values.subspan(i).first<kGroup>());
  }
  if (values.size() % kGroup != 0) {  // torch draws the last 16 afresh
    const auto tail = values.last<kGroup>();
    draw(tail);
    transform_group(tail);
  }
}

std::uint32_t TorchGenerator::next() {
  if (position_ == static_cast<int>(kWords)) {
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint32_t y =
          (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7fffffffU);
      state_[i] = state_[(i + kMiddle) % kWords] ^ (y >> 1U) ^
                  ((y & 1U) != 0 ? kTwist : 0U);
    }
    position_ = 0;
  }
  std::uint32_t y = state_[static_cast<std::size_t>(position_++)];
  y ^= y >> 11U;
  y ^= (y << 7U) & 0x9d2c5680U;
  y ^= (y << 15U) & 0xefc60000U;
  return y ^ (y >> 18U);
}

double TorchGenerator::next_double() {
  const std::uint64_t high = next();
  const std::uint64_t bits = (high << 32U) | next();
  return static_cast<double>(bits & ((std::uint64_t{1} << 53U) - 1)) * 0x1p-53;
}

double TorchGenerator::next_normal() {
  if (has_cached_normal_) {
    has_cached_normal_ = false;
    return cached_normal_;
  }
  constexpr double kTwoPi = 6.283185307179586;
  const double u1 = next_double();
  const double u2 = next_double();
  const double radius = std::sqrt(-2.0 * detail::log_positive(1.0 - u2));
  const detail::SinCos angle = detail::sin_cos(kTwoPi * u1);
  cached_normal_ = radius * angle.sin;
  has_cached_normal_ = true;
  return radius * angle.cos;
}

}  // namespace troupe
