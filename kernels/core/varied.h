#pragma once

#include <cstdint>

#include "kernels/core/tensor.h"

namespace troupe {

/// Fills `out` (f32, host) with the operands of a check of arithmetic: numbers
/// in [-2, 2] whose mantissas use every bit, the same ones for the same seed on
/// every machine. Much cheaper than noise.
/// Errors: Errc::internal unless `out` is f32 on the CPU. Thread: any.
void fill_varied(std::uint64_t seed, Tensor& out);

}  // namespace troupe
