#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace troupe::kernels::cpu {

/// What a call of `linear` computes: out = activation(x · weightᵀ + bias); with
/// `gate`, out += gate · activation(x · weightᵀ + bias). `gate` points at the
/// first of N columns for item 0; items are `gate_stride` elements apart.
struct LinearCall {
  Activation activation = Activation::none;
  const float* gate = nullptr;
  std::int64_t gate_stride = 0;
};

}  // namespace troupe::kernels::cpu
