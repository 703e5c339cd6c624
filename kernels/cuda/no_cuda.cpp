#include "kernels/cuda/devices.h"

namespace troupe::kernels {

CudaDevices cuda_devices() {
  return {{}, "this build has no CUDA device layer"};
}

std::vector<LibraryVersion> cuda_libraries() { return {}; }

}  // namespace troupe::kernels
