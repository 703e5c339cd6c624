#pragma once

#include "kernels/cuda/libraries.cuh"

namespace troupe::emulator {

/// The emulated cuBLASLt (blas.cpp), cuDNN (dnn.cpp) and driver
/// (runtime_streams.cpp): what load_libraries gives in a program with emulated
/// GPUs.
[[nodiscard]] kernels::cuda::BlasLt emulated_blas();
[[nodiscard]] kernels::cuda::Dnn emulated_dnn();
[[nodiscard]] kernels::cuda::Driver emulated_driver();

}  // namespace troupe::emulator
