#pragma once

#include "kernels/cuda/libraries.cuh"

namespace troupe::emulator {

/// The emulated cuBLASLt (blas.cpp) and cuDNN (dnn.cpp): what load_libraries
/// gives in a program with emulated GPUs.
[[nodiscard]] kernels::cuda::BlasLt emulated_blas();
[[nodiscard]] kernels::cuda::Dnn emulated_dnn();

}  // namespace troupe::emulator
