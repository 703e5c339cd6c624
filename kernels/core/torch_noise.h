#pragma once

#include <array>
#include <cstdint>

#include "kernels/core/tensor.h"

namespace troupe {

/// The numbers of a CPU `torch.Generator` and `torch.randn` in float32, for
/// users who want the image diffusers draws from the same seed (≤ 1e-6).
/// A copy has the same state and draws the same numbers.
/// Source: PyTorch ATen/native/cpu/DistributionTemplates.h (normal_fill),
/// ATen/core/MT19937RNGEngine.h.
class TorchGenerator {
 public:
  explicit TorchGenerator(std::uint64_t seed);

  /// torch.randn(shape, generator=self): advances the state. `out` is f32.
  void fill_normal(Tensor& out);

 private:
  std::uint32_t next();
  double next_double();
  double next_normal();

  std::array<std::uint32_t, 624> state_{};
  int position_ = 624;
  bool has_cached_normal_ = false;
  double cached_normal_ = 0.0;
};

}  // namespace troupe
