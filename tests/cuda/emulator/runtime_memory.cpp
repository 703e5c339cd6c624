#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/cuda/emulator/machine.h"

// The CUDA runtime's functions about memory.

namespace emulator = troupe::emulator;
using emulator::call;
using emulator::Device;
using emulator::device_call;
using emulator::machine;
using emulator::Stream;
using emulator::stream_call;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kUnit = 256;

std::size_t rounded_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

bool fits(const Device& device, std::size_t bytes) {
  return machine().arena.bytes_in_use(device.index) +
             rounded_up(bytes, kUnit) <=
         machine().config.memory_bytes;
}

/// Frees that are queued count when they run.
bool make_room(const Device& device, std::size_t bytes) {
  if (bytes > machine().config.memory_bytes) {
    return false;
  }
  for (Stream& stream : machine().streams) {
    if (!fits(device, bytes) && stream.device == device.index &&
        !stream.capture) {
      (void)emulator::finish(stream);
    }
  }
  return fits(device, bytes);
}

cudaError_t new_pinned(const char* function, void** memory, std::size_t bytes) {
  return device_call(function, [&](Device& device) {
    if (const cudaError_t status = emulator::refuse_in_capture()) {
      return status;
    }
    const std::size_t whole =
        rounded_up(std::max<std::size_t>(bytes, 1), kPage);
    void* pages = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
      return cudaErrorMemoryAllocation;
    }
    std::memset(pages, 0xff, whole);
    machine().pinned[static_cast<std::byte*>(pages)] = whole;
    ++device.counters.pinned_changes;
    *memory = pages;
    return cudaSuccess;
  });
}

Device* device_of(cudaMemPool_t pool) {
  for (Device& device : machine().devices) {
    if (reinterpret_cast<cudaMemPool_t>(&device) == pool) {
      return &device;
    }
  }
  return nullptr;
}

bool is_pinned(const void* address) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(address));
  auto after = machine().pinned.upper_bound(at);
  if (after == machine().pinned.begin()) {
    return false;
  }
  --after;
  return at < after->first + after->second;
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes,
                            cudaStream_t handle) {
  return stream_call(
      "cudaMallocAsync", handle, [&](Stream& stream, Device& device) {
        if (bytes == 0) {
          return cudaErrorInvalidValue;
        }
        if (stream.capture) {
          // A real graph could own memory; Troupe's recorded work must not.
          stream.capture->is_valid = false;
          return cudaErrorStreamCaptureUnsupported;
        }
        // The stream is not captured, but another stream may be.
        if (const cudaError_t status = emulator::refuse_in_capture()) {
          return status;
        }
        if (!make_room(device, bytes)) {
          return cudaErrorMemoryAllocation;
        }
        std::byte* start = machine().arena.promise(device.index, bytes);
        ++device.counters.allocations;
        *memory = start;
        return emulator::push(
            stream, {.name = "an allocation",
                     .run = [start] { machine().arena.activate(start); },
                     .is_ready = {},
                     .is_work = false});
      });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  return stream_call(
      "cudaFreeAsync", handle, [&](Stream& stream, Device& device) {
        auto* allocation = machine().arena.find_start(memory);
        if (allocation == nullptr || allocation->is_freed) {
          return cudaErrorInvalidValue;
        }
        if (stream.capture) {
          // Only memory that the same graph allocated may be released in it.
          stream.capture->is_valid = false;
          return cudaErrorInvalidValue;
        }
        if (const cudaError_t status = emulator::refuse_in_capture()) {
          return status;
        }
        allocation->is_freed = true;
        ++device.counters.frees;
        auto* start = static_cast<std::byte*>(memory);
        return emulator::push(
            stream, {.name = "a release of memory",
                     .run = [start] { machine().arena.remove(start); },
                     .is_ready = {},
                     .is_work = false});
      });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return device_call("cudaMalloc", [&](Device& device) {
    if (const cudaError_t status = emulator::refuse_in_capture()) {
      return status;
    }
    *memory = nullptr;
    if (bytes == 0) {
      return cudaSuccess;
    }
    if (!make_room(device, bytes)) {
      return cudaErrorMemoryAllocation;
    }
    std::byte* start = machine().arena.promise(device.index, bytes);
    machine().arena.activate(start);
    ++device.counters.allocations;
    *memory = start;
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* memory) {
  return device_call("cudaFree", [&](Device& device) {
    if (const cudaError_t status = emulator::refuse_in_capture()) {
      return status;
    }
    if (memory == nullptr) {
      return cudaSuccess;
    }
    const auto* allocation = machine().arena.find_start(memory);
    if (allocation == nullptr || allocation->is_freed) {
      return cudaErrorInvalidValue;
    }
    ++device.counters.host_waits;
    for (Stream& stream : machine().streams) {
      if (stream.device == device.index) {
        (void)emulator::finish(stream);
      }
    }
    ++device.counters.frees;
    machine().arena.remove(static_cast<std::byte*>(memory));
    return device.lost;
  });
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return new_pinned("cudaMallocHost", memory, bytes);
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes,
                          unsigned /*flags*/) {
  return new_pinned("cudaHostAlloc", memory, bytes);
}

// Work that still uses it faults: the real function promises no wait.
cudaError_t cudaFreeHost(void* memory) {
  return call("cudaFreeHost", [&] {
    const auto found = machine().pinned.find(static_cast<std::byte*>(memory));
    if (found == machine().pinned.end()) {
      return memory == nullptr ? cudaSuccess : cudaErrorInvalidValue;
    }
    munmap(memory, found->second);
    machine().pinned.erase(found);
    const auto device = static_cast<std::size_t>(emulator::current_device());
    ++machine().devices.at(device).counters.pinned_changes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return device_call("cudaMemGetInfo", [&](Device& device) {
    *total = machine().config.memory_bytes;
    *free = *total - machine().arena.bytes_in_use(device.index);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* address) {
  return call("cudaPointerGetAttributes", [&] {
    *attributes = {};
    if (const auto* allocation = machine().arena.find(address)) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = allocation->device;
      attributes->devicePointer = const_cast<void*>(address);
    } else if (is_pinned(address)) {
      attributes->type = cudaMemoryTypeHost;
      attributes->hostPointer = const_cast<void*>(address);
    } else {
      attributes->type = cudaMemoryTypeUnregistered;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call("cudaDeviceGetDefaultMemPool", [&] {
    if (device < 0 || device >= machine().config.devices) {
      return cudaErrorInvalidDevice;
    }
    *pool = reinterpret_cast<cudaMemPool_t>(
        &machine().devices[static_cast<std::size_t>(device)]);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr,
                                    void* value) {
  return call("cudaMemPoolSetAttribute", [&] {
    return device_of(pool) != nullptr && value != nullptr
               ? cudaSuccess
               : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                    cudaMemPoolAttr attribute, void* value) {
  return call("cudaMemPoolGetAttribute", [&] {
    const Device* device = device_of(pool);
    if (device == nullptr || (attribute != cudaMemPoolAttrReservedMemCurrent &&
                              attribute != cudaMemPoolAttrUsedMemCurrent)) {
      return cudaErrorInvalidValue;
    }
    *static_cast<std::uint64_t*>(value) =
        machine().arena.bytes_in_use(device->index);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t /*keep*/) {
  return call("cudaMemPoolTrimTo", [&] {
    return device_of(pool) != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
                                 const cudaMemAccessDesc* accesses,
                                 std::size_t count) {
  return call("cudaMemPoolSetAccess", [&] {
    Device* device = device_of(pool);
    if (device == nullptr) {
      return cudaErrorInvalidValue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const int peer = accesses[i].location.id;
      if (accesses[i].location.type != cudaMemLocationTypeDevice || peer < 0 ||
          peer >= machine().config.devices) {
        return cudaErrorInvalidValue;
      }
      if (peer != device->index && !machine().config.peer_access) {
        return cudaErrorInvalidDevice;
      }
      if (accesses[i].flags == cudaMemAccessFlagsProtReadWrite) {
        device->readers |= emulator::bit(peer);
      } else if (peer != device->index) {
        device->readers &= ~emulator::bit(peer);
      }
    }
    return cudaSuccess;
  });
}

}  // extern "C"
