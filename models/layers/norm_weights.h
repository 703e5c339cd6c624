#pragma once

#include "kernels/core/tensor.h"

namespace troupe::models {

/// Weight and bias of a norm, [C] f32.
struct NormWeights {
  Tensor weight, bias;
};

}  // namespace troupe::models
