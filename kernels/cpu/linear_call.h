#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace troupe::kernels::cpu {

/// What a call of `linear` computes: y = activation(x · weightᵀ + bias), then
/// out = y, or if it `adds` out += y, with a `gate` out += gate · y. `gate`
/// points at the first of N columns for item 0; items are `gate_stride`
/// elements apart.
struct LinearCall {
  Activation activation = Activation::none;
  bool adds = false;
  const float* gate = nullptr;
  std::int64_t gate_stride = 0;
};

}  // namespace troupe::kernels::cpu
