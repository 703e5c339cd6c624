#include "kernels/core/noise.h"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/polynomials.h"

namespace troupe {
namespace {

constexpr std::uint64_t kSampleIndexEnd = std::uint64_t{1} << 48U;
constexpr std::int64_t kNormalsPerBlock = 4;
// The block number is one 32-bit word of the counter.
constexpr std::int64_t kMaxElements = kNormalsPerBlock << 32U;

void check(const NoiseKey& key) {
  if (key.sample_index >= kSampleIndexEnd) {
    throw Error(Errc::invalid_argument, "noise",
                "sample index too large: got " +
                    std::to_string(key.sample_index) +
                    ", expected less than 2^48");
  }
}

void check(const NoiseKey& key, const Tensor& out) {
  check(key);
  if (out.dtype() != DType::f32 || out.device().kind != DeviceKind::cpu) {
    throw Error(Errc::internal, "noise",
                "wrong output: got " + std::string(to_string(out.dtype())) +
                    " on " + to_string(out.device()) + ", expected f32 on cpu");
  }
  require(out.num_elements() <= kMaxElements, Errc::invalid_argument, "noise",
          "too many elements for one key: expected at most 2^34");
}

// Two normals from two words: u in (0, 1) with steps of 2^-32, never 0 or 1.
std::array<float, 2> box_muller(std::uint32_t magnitude, std::uint32_t turn) {
  const double u = (magnitude + 0.5) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * detail::log_positive(u));
  const detail::SinCos angle = detail::sin_cos_turn(turn);
  return {static_cast<float>(radius * angle.cos),
          static_cast<float>(radius * angle.sin)};
}

std::array<std::uint32_t, 2> philox_key_of(const NoiseKey& key) {
  return {static_cast<std::uint32_t>(key.seed),
          static_cast<std::uint32_t>(key.seed >> 32U)};
}

PhiloxBlock first_counter(const NoiseKey& key) {
  return {0, key.step_index, static_cast<std::uint32_t>(key.sample_index),
          static_cast<std::uint32_t>(key.sample_index >> 32U) |
              static_cast<std::uint32_t>(key.purpose) << 16U};
}

}  // namespace

PhiloxBlock philox4x32_10(const PhiloxBlock& counter,
                          const std::array<std::uint32_t, 2>& key) noexcept {
  const r123::Philox4x32::ctr_type words = {
      {counter[0], counter[1], counter[2], counter[3]}};
  const r123::Philox4x32::key_type keys = {{key[0], key[1]}};
  const r123::Philox4x32::ctr_type r = r123::Philox4x32()(words, keys);
  return {r[0], r[1], r[2], r[3]};
}

void fill_normal(const NoiseKey& key, Tensor& out) {
  check(key, out);
  const std::array philox_key = philox_key_of(key);
  PhiloxBlock counter = first_counter(key);
  std::span<float> rest = out.span<float>();
  for (; !rest.empty(); ++counter[0]) {
    const PhiloxBlock r = philox4x32_10(counter, philox_key);
    const auto first = box_muller(r[0], r[1]);
    const auto second = box_muller(r[2], r[3]);
    const std::array normals = {first[0], first[1], second[0], second[1]};
    const std::size_t count = std::min(rest.size(), normals.size());
    std::copy_n(normals.begin(), count, rest.begin());
    rest = rest.subspan(count);
  }
}

double uniform_number(const NoiseKey& key) {
  check(key);
  const PhiloxBlock r = philox4x32_10(first_counter(key), philox_key_of(key));
  const std::uint64_t bits = (std::uint64_t{r[0]} << 20U) | (r[1] >> 12U);
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

}  // namespace troupe
