#pragma once

#include <cstdint>

#include "kernels/core/tensor.h"

namespace troupe::samplers {

/// Port: the noise of one job. A pure function of its arguments, so it may be
/// asked in any order and more than once.
class NoiseSource {
 public:
  virtual ~NoiseSource() = default;
  /// Unit normals for the latents a sample starts from; out [C, H, W] f32.
  virtual void initial(std::uint64_t sample_index, Tensor& out) = 0;
  /// Unit normals for the step that follows model call `call`.
  virtual void step(std::uint64_t sample_index, int call, Tensor& out) = 0;
};

}  // namespace troupe::samplers
