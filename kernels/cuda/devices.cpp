#include "kernels/cuda/devices.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstddef>
#include <initializer_list>
#include <memory>

#include "kernels/core/device.h"
#include "kernels/core/error.h"

namespace troupe::kernels {
namespace {

constexpr const char* kNotFound = "not found";

// Also clears the error, so that no later check reports it.
std::string sentence(cudaError_t status) {
  (void)cudaGetLastError();
  return std::string("the CUDA runtime reports: ") + cudaGetErrorString(status);
}

std::string dotted(std::uint64_t major, std::uint64_t minor,
                   std::uint64_t patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

// The runtime counts 1000 * major + 10 * minor; 0 means there is none.
std::string cuda_version(int number) {
  if (number <= 0) {
    return kNotFound;
  }
  return std::to_string(number / 1000) + "." +
         std::to_string(number % 1000 / 10);
}

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// Nothing here links these libraries, so their absence is a finding and not a
// failure to start.
Library open_first(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (Library library{dlopen(name, RTLD_LAZY | RTLD_LOCAL)}) {
      return library;
    }
  }
  return nullptr;
}

template <typename Function>
Function* find(const Library& library, const char* name) {
  return library ? reinterpret_cast<Function*>(dlsym(library.get(), name))
                 : nullptr;
}

std::string cublaslt_version() {
  const Library library =
      open_first({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  auto* const version = find<std::size_t()>(library, "cublasLtGetVersion");
  if (version == nullptr) {
    return kNotFound;
  }
  // 10000 * major + 100 * minor + patch since 12.
  const std::size_t number = version();
  return dotted(number / 10000, number / 100 % 100, number % 100);
}

std::string cudnn_version() {
  const Library library = open_first({"libcudnn.so.9", "libcudnn.so"});
  auto* const version = find<std::size_t()>(library, "cudnnGetVersion");
  if (version == nullptr) {
    return kNotFound;
  }
  // 10000 * major + 100 * minor + patch since 9, 1000 * major before.
  const std::size_t number = version();
  return number >= 90000
             ? dotted(number / 10000, number / 100 % 100, number % 100)
             : dotted(number / 1000, number / 100 % 10, number % 100);
}

std::string nccl_version() {
  const Library library = open_first({"libnccl.so.2", "libnccl.so"});
  auto* const version = find<int(int*)>(library, "ncclGetVersion");
  int number = 0;
  if (version == nullptr || version(&number) != 0) {
    return kNotFound;
  }
  const auto n = static_cast<std::uint64_t>(number);
  return dotted(n / 10000, n / 100 % 100, n % 100);
}

}  // namespace

CudaDevices cuda_devices() {
  CudaDevices found;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    found.why_none = "no NVIDIA driver is installed";
    return found;
  }
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count);
      status != cudaSuccess) {
    found.why_none = sentence(status);
    return found;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (const cudaError_t status = cudaGetDeviceProperties(&properties, index);
        status != cudaSuccess) {
      found.why_none = sentence(status);
      continue;
    }
    found.devices.push_back({index, properties.name, properties.totalGlobalMem,
                             properties.major, properties.minor,
                             properties.multiProcessorCount});
  }
  if (!found.devices.empty()) {
    found.why_none.clear();
  } else if (found.why_none.empty()) {
    found.why_none = "the CUDA runtime reports: no device";
  }
  return found;
}

DeviceMemory cuda_memory(int index) {
  cudaError_t status = cudaSetDevice(index);
  std::size_t free = 0;
  std::size_t total = 0;
  if (status == cudaSuccess) {
    status = cudaMemGetInfo(&free, &total);
  }
  if (status != cudaSuccess) {
    throw Error(Errc::device_lost, to_string(Device{DeviceKind::cuda, index}),
                sentence(status), "see nvidia-smi for the device");
  }
  return {free, total};
}

std::vector<LibraryVersion> cuda_libraries() {
  int runtime = 0;
  int driver = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDriverGetVersion(&driver);
  return {{"CUDA runtime", cuda_version(runtime)},
          {"CUDA driver", cuda_version(driver)},
          {"cuBLASLt", cublaslt_version()},
          {"cuDNN", cudnn_version()},
          {"NCCL", nccl_version()}};
}

}  // namespace troupe::kernels
