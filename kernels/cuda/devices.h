#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::kernels {

struct CudaDevice {
  int index = 0;
  std::string name;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int num_multiprocessors = 0;
};

struct CudaDevices {
  std::vector<CudaDevice> devices;
  /// Why `devices` is empty, in one sentence; empty when it is not.
  std::string why_none;
};

/// The CUDA devices this process can use, in the driver's order. Never throws
/// for want of a driver or device. Thread: any.
[[nodiscard]] CudaDevices cuda_devices();

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// A device's memory at the moment. Initialises the device, which takes some of
/// its memory. Errors: Errc::unsupported in a build without CUDA,
/// Errc::device_lost with the cause when the device does not answer.
[[nodiscard]] DeviceMemory cuda_memory(int index);

struct LibraryVersion {
  std::string name;
  std::string version;  ///< "not found" when it cannot be loaded
};

/// CUDA runtime and driver, cuBLASLt, cuDNN and NCCL, as found at run time;
/// empty in a build without CUDA. Thread: any.
[[nodiscard]] std::vector<LibraryVersion> cuda_libraries();

}  // namespace troupe::kernels
