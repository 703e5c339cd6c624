#include "tests/cuda/emulator/libraries.h"

namespace troupe::kernels::cuda {

Libraries load_libraries() {
  return {emulator::emulated_blas(), emulator::emulated_dnn(),
          emulator::emulated_driver(), nullptr};
}

}  // namespace troupe::kernels::cuda
