#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/cuda/emulator/machine.h"

// The CUDA runtime's copies and fills.

namespace emulator = troupe::emulator;
using emulator::Device;
using emulator::machine;
using emulator::Stream;
using emulator::stream_call;

namespace {

enum class Place { device, pinned, pageable, nowhere };

struct Side {
  Place place = Place::nowhere;
  int device = 0;
};

bool is_pinned(const void* address, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(address));
  auto after = machine().pinned.upper_bound(at);
  if (after == machine().pinned.begin()) {
    return false;
  }
  --after;
  return at + bytes <= after->first + after->second;
}

Side side_of(const void* address, std::size_t bytes) {
  auto& arena = machine().arena;
  if (arena.is_inside(address)) {
    return arena.holds(address, bytes)
               ? Side{Place::device, arena.find(address)->device}
               : Side{};
  }
  return {is_pinned(address, bytes) ? Place::pinned : Place::pageable};
}

/// Rows of bytes.
struct Rows {
  std::size_t width;
  std::size_t height = 1;
  std::size_t from_pitch = 0;
  std::size_t to_pitch = 0;
};

std::size_t extent(std::size_t pitch, const Rows& rows) {
  return pitch * (rows.height - 1) + rows.width;
}

void copy_rows(void* to, const void* from, const Rows& rows) {
  for (std::size_t row = 0; row < rows.height; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * rows.to_pitch,
                static_cast<const std::byte*>(from) + row * rows.from_pitch,
                rows.width);
  }
}

/// What the host reads too early, or writes too late, shows. (That work before
/// the copy still reads these bytes is not emulated: nothing of ours does.)
void poison_rows(void* to, const Rows& rows) {
  for (std::size_t row = 0; row < rows.height; ++row) {
    std::memset(static_cast<std::byte*>(to) + row * rows.to_pitch, 0xff,
                rows.width);
  }
}

bool agrees(cudaMemcpyKind kind, const Side& from, const Side& to) {
  const bool from_device = from.place == Place::device;
  const bool to_device = to.place == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

std::uint64_t touched(const Side& side) {
  return side.place == Place::device ? emulator::bit(side.device) : 0;
}

/// Memory of a pool is copied from a device that may access it only; the peer
/// form alone goes through the host (CUDA Programming Guide, stream-ordered
/// memory allocator, multi-GPU support).
bool reaches(const Stream& stream, const Side& side) {
  return side.place != Place::device ||
         (machine().devices[static_cast<std::size_t>(side.device)].readers &
          emulator::bit(stream.device)) != 0;
}

cudaError_t queue_copy(Stream& stream, Device& device, void* to,
                       const void* from, const Rows& rows, const Side& target,
                       const Side& source) {
  const bool waits = target.place == Place::pageable;
  emulator::Operation operation{.name = "a copy",
                                .run = {},
                                .is_ready = {},
                                .touches = touched(target) | touched(source)};
  if (source.place == Place::pageable || waits) {
    ++device.counters.pageable_copies;
    if (stream.capture) {
      stream.capture->is_valid = false;
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  if (source.place == Place::pageable) {
    // The real one reads the source before it returns, or as good as.
    const auto* first = static_cast<const std::byte*>(from);
    auto kept = std::make_shared<std::vector<std::byte>>(
        first, first + extent(rows.from_pitch, rows));
    operation.run = [to, kept, rows] { copy_rows(to, kept->data(), rows); };
  } else {
    operation.run = [to, from, rows] { copy_rows(to, from, rows); };
  }
  if (target.place == Place::pinned && !stream.capture) {
    poison_rows(to, rows);
  }
  const cudaError_t status = emulator::push(stream, std::move(operation));
  if (status != cudaSuccess || !waits) {
    return status;
  }
  ++device.counters.host_waits;
  return emulator::finish(stream);
}

cudaError_t copy(const char* function, void* to, const void* from,
                 const Rows& rows, cudaMemcpyKind kind, cudaStream_t handle,
                 bool waits = false) {
  return stream_call(function, handle, [&](Stream& stream, Device& device) {
    if (rows.width == 0 || rows.height == 0) {
      return cudaSuccess;
    }
    const Side source = side_of(from, extent(rows.from_pitch, rows));
    const Side target = side_of(to, extent(rows.to_pitch, rows));
    if (source.place == Place::nowhere || target.place == Place::nowhere ||
        !agrees(kind, source, target) || !reaches(stream, source) ||
        !reaches(stream, target) ||
        stream.device != emulator::current_device()) {
      return cudaErrorInvalidValue;
    }
    const cudaError_t status =
        queue_copy(stream, device, to, from, rows, target, source);
    if (status != cudaSuccess || !waits) {
      return status;
    }
    ++device.counters.host_waits;
    const cudaError_t refused = emulator::refuse_in_capture();
    return refused != cudaSuccess ? refused : emulator::finish(stream);
  });
}

/// Between devices, or inside one.
cudaError_t peer_copy(const char* function, void* to, int to_device,
                      const void* from, int from_device, const Rows& rows,
                      cudaStream_t handle) {
  return stream_call(function, handle, [&](Stream& stream, Device& device) {
    if (rows.width == 0 || rows.height == 0) {
      return cudaSuccess;
    }
    const Side source = side_of(from, extent(rows.from_pitch, rows));
    const Side target = side_of(to, extent(rows.to_pitch, rows));
    if (source.place != Place::device || source.device != from_device ||
        target.place != Place::device || target.device != to_device) {
      return cudaErrorInvalidValue;
    }
    for (const int side : {to_device, from_device}) {
      const cudaError_t lost =
          machine().devices[static_cast<std::size_t>(side)].lost;
      if (lost != cudaSuccess) {
        return lost;
      }
    }
    return queue_copy(stream, device, to, from, rows, target, source);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return copy("cudaMemcpyAsync", to, from, {bytes}, kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                       cudaMemcpyKind kind) {
  return copy("cudaMemcpy", to, from, {bytes}, kind, nullptr, true);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (to_pitch < width || from_pitch < width) {
    return cudaErrorInvalidPitchValue;
  }
  return copy("cudaMemcpy2DAsync", to, from,
              {width, height, from_pitch, to_pitch}, kind, stream);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from,
                                int from_device, std::size_t bytes,
                                cudaStream_t handle) {
  return peer_copy("cudaMemcpyPeerAsync", to, to_device, from, from_device,
                   {bytes}, handle);
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p,
                                  cudaStream_t handle) {
  const auto is_first = [](const cudaPos& at) {
    return at.x == 0 && at.y == 0 && at.z == 0;
  };
  // Only what is used: one plane of rows from where the addresses point.
  if (p->srcArray != nullptr || p->dstArray != nullptr ||
      !is_first(p->srcPos) || !is_first(p->dstPos) || p->extent.depth != 1) {
    return cudaErrorNotSupported;
  }
  if (p->srcPtr.pitch < p->extent.width || p->dstPtr.pitch < p->extent.width) {
    return cudaErrorInvalidPitchValue;
  }
  return peer_copy(
      "cudaMemcpy3DPeerAsync", p->dstPtr.ptr, p->dstDevice, p->srcPtr.ptr,
      p->srcDevice,
      {p->extent.width, p->extent.height, p->srcPtr.pitch, p->dstPtr.pitch},
      handle);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes,
                            cudaStream_t handle) {
  return stream_call("cudaMemsetAsync", handle, [&](Stream& stream, Device&) {
    if (bytes == 0) {
      return cudaSuccess;
    }
    const Side target = side_of(to, bytes);
    if (target.place != Place::device || !reaches(stream, target)) {
      return cudaErrorInvalidValue;
    }
    return emulator::push(
        stream, {.name = "a fill",
                 .run = [to, value, bytes] { std::memset(to, value, bytes); },
                 .is_ready = {},
                 .touches = touched(target)});
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

}  // extern "C"
