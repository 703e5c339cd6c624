#pragma once

#include <cstdint>

#include "kernels/core/tensor.h"

namespace troupe {

/// What a draw of noise is for; part of the counter, so draws never collide.
enum class NoisePurpose : std::uint8_t { initial_latents, step, weights };

/// Identifies one tensor of noise. Nothing else enters the numbers: placement,
/// batch, order and restarts never change them.
struct NoiseKey {
  std::uint64_t seed = 0;
  std::uint64_t sample_index = 0;  ///< < 2^48
  std::uint32_t step_index = 0;    ///< model-call index; 0 for initial latents
  NoisePurpose purpose = NoisePurpose::initial_latents;
};

/// Fills `out` (f32, host) with standard normals from Philox4x32-10 (Salmon et
/// al. 2011, SC'11) and the Box-Muller transform in our own polynomials, so
/// that the bits do not depend on the C library or CPU.
/// Thread: any.
void fill_normal(const NoiseKey& key, Tensor& out);

}  // namespace troupe
