#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "tests/cuda/emulator/machine.h"

// The CUDA runtime's functions about devices and errors. Their meaning: CUDA
// Runtime API reference, of the version whose header is included.

namespace emulator = troupe::emulator;
using emulator::call;
using emulator::Device;
using emulator::device_call;
using emulator::machine;

namespace {

bool exists(int device) {
  return device >= 0 && device < machine().config.devices;
}

cudaError_t attribute_of(int* value, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = machine().config.multiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = machine().config.compute_major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = machine().config.compute_minor;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      return cudaSuccess;
    default:
      emulator::report_bug("an attribute that is not emulated: " +
                           std::to_string(static_cast<int>(attribute)));
  }
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice",
     "invalid device ordinal"},
    {cudaErrorNoDevice, "cudaErrorNoDevice",
     "no CUDA-capable device is detected"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable",
     "uncorrectable ECC error encountered"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure",
     "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another "
     "thread"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* text_of(cudaError_t error) {
  for (const ErrorText& known : kErrors) {
    if (known.error == error) {
      return &known;
    }
  }
  return nullptr;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* known = text_of(error);
  return known != nullptr ? known->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* known = text_of(error);
  return known != nullptr ? known->text : "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = emulator::last_error();
  emulator::last_error() = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return emulator::last_error(); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&] {
    *count = machine().config.devices;
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&] {
    *device = emulator::current_device();
    return machine().config.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    if (!exists(device)) {
      return cudaErrorInvalidDevice;
    }
    emulator::current_device() = device;
    return machine().devices[static_cast<std::size_t>(device)].lost;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&] {
    if (!exists(device)) {
      return cudaErrorInvalidDevice;
    }
    *properties = {};
    std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
    properties->totalGlobalMem = machine().config.memory_bytes;
    properties->major = machine().config.compute_major;
    properties->minor = machine().config.compute_minor;
    properties->multiProcessorCount = machine().config.multiprocessors;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->sharedMemPerBlock = std::size_t{48} << 10U;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device) {
  return call("cudaDeviceGetAttribute", [&] {
    return exists(device) ? attribute_of(value, attribute)
                          : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&] {
    if (!exists(device) || !exists(peer)) {
      return cudaErrorInvalidDevice;
    }
    *can = device != peer && machine().config.peer_access ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return device_call("cudaDeviceSynchronize", [](Device& device) {
    ++device.counters.host_waits;
    if (const cudaError_t status = emulator::refuse_in_capture()) {
      return status;
    }
    for (emulator::Stream& stream : machine().streams) {
      if (stream.device == device.index && device.lost == cudaSuccess) {
        (void)emulator::finish(stream);
      }
    }
    return device.lost;
  });
}

}  // extern "C"
