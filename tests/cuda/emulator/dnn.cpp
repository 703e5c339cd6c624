#include "tests/cuda/emulator/libraries.h"

namespace troupe::emulator {

kernels::cuda::Dnn emulated_dnn() { return {}; }

}  // namespace troupe::emulator
