#include "kernels/cuda/devices.h"

namespace troupe::kernels {

CudaDevices cuda_devices() {
  return {{},
          "this build has no CUDA device layer (configure with the cuda "
          "preset)"};
}

std::vector<LibraryVersion> cuda_libraries() { return {}; }

}  // namespace troupe::kernels
