#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace troupe::kernels::cpu {

/// out = activation(x · weightᵀ + bias), or with `gate` (first of N columns of
/// item 0, items `gate_stride` apart): out += gate · (…).
struct LinearCall {
  Activation activation = Activation::none;
  const float* gate = nullptr;
  std::int64_t gate_stride = 0;
};

}  // namespace troupe::kernels::cpu
