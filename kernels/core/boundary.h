#pragma once

#include <string>
#include <vector>

#include "kernels/core/tensor.h"

namespace troupe {

/// A tensor and the name that a model gives it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// The tensors that one segment of a network hands to the next, for one row of
/// a batch: the hidden state of a DiT, image and text of an MMDiT, hidden state
/// and skips of a UNet. What depends on (timestep, condition) alone is not
/// among them: each segment computes it.
using Boundary = std::vector<NamedTensor>;

}  // namespace troupe
