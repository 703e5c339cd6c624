#pragma once

#include <string>
#include <vector>

#include "kernels/core/tensor.h"

namespace troupe {

/// A tensor with the name under which a model knows it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// What crosses the cut between two segments of a network for one row of a
/// batch: one tensor for a DiT, image and text for an MMDiT, hidden state and
/// skips for a UNet. What follows from (timestep, condition) alone is not in
/// it.
using Boundary = std::vector<NamedTensor>;

}  // namespace troupe
