#include "tests/cuda/emulator/libraries.h"

namespace troupe::emulator {

kernels::cuda::BlasLt emulated_blas() { return {}; }

}  // namespace troupe::emulator
