#pragma once

#include <array>
#include <cstdint>

#include "kernels/core/tensor.h"

namespace troupe {

/// What the noise is for. It is part of the counter, so two purposes never
/// share numbers. Add values, never renumber them: that would change the noise.
enum class NoisePurpose : std::uint8_t {
  initial_latents = 0,
  step = 1,
  weights = 2,
  acceptance = 3
};

/// Identifies one tensor of noise. The numbers depend on nothing else: not on
/// placement, batch, order or restarts.
struct NoiseKey {
  std::uint64_t seed = 0;
  std::uint64_t sample_index = 0;  ///< < 2^48
  std::uint32_t step_index = 0;    ///< model-call index; 0 for initial latents
  NoisePurpose purpose = NoisePurpose::initial_latents;
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Philox4x32 with ten rounds (Salmon et al. 2011, SC'11): 128 random bits,
/// a bijection of the counter for each key.
[[nodiscard]] PhiloxBlock philox4x32_10(
    const PhiloxBlock& counter,
    const std::array<std::uint32_t, 2>& key) noexcept;

/// Fills `out` (f32, host) with standard normals: Philox4x32-10 under the key
/// `seed`, counter (element / 4, step, sample, purpose), then the Box-Muller
/// transform in our own polynomials, so that the bits do not depend on the C
/// library or CPU. Element i is the same for every size of `out`.
/// Errors: Errc::invalid_argument for sample_index ≥ 2^48 or more than 2^34
/// elements; Errc::internal unless `out` is f32 on the CPU.
/// Thread: any.
void fill_normal(const NoiseKey& key, Tensor& out);

/// One number of (0, 1), in steps of 2^-52, from the first block of that
/// counter. Errors: Errc::invalid_argument for sample_index ≥ 2^48. Thread:
/// any.
[[nodiscard]] double uniform_number(const NoiseKey& key);

}  // namespace troupe
