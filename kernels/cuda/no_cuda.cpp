#include "kernels/check.h"
#include "kernels/cuda/devices.h"

// A build without CUDA: the functions of ops.h throw. The macro turns every
// declaration of ops.h into a definition.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define TROUPE_OP \
  { throw_no_backend(__func__, ctx.device()); }
#include "kernels/cuda/ops.h"

namespace troupe {

std::shared_ptr<DeviceBackend> make_device_backend(
    Device device, const DeviceOptions& /*options*/) {
  throw Error(Errc::unsupported, to_string(device),
              "this build has no CUDA device layer",
              "run on the CPU (--device cpu), or build with the cuda preset");
}

}  // namespace troupe

namespace troupe::kernels {

CudaDevices cuda_devices() {
  return {{}, "this build has no CUDA device layer"};
}

DeviceMemory cuda_memory(int index) {
  throw Error(Errc::unsupported, to_string(Device{DeviceKind::cuda, index}),
              "this build has no CUDA device layer");
}

std::vector<LibraryVersion> cuda_libraries() { return {}; }

}  // namespace troupe::kernels
