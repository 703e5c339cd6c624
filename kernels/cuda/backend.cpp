#include "kernels/cuda/backend.cuh"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/core/error.h"
#include "kernels/cuda/devices.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t kSlotBytes = std::size_t{4} << 20U;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kStagingAlignment = 256;

std::string device_name(int device) {
  return to_string(Device{DeviceKind::cuda, device});
}

/// After these a context answers every call with the same error (CUDA runtime
/// reference, cudaError_t).
bool is_fatal(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

/// Memory that other GPUs may read directly, kept by the pool when freed:
/// a job asks for the same sizes again and again.
void prepare_pool(int device) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "memory pool");
  std::uint64_t keep = ~std::uint64_t{0};
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "memory pool");
  int count = 0;
  check(cudaGetDeviceCount(&count), "device");
  for (int peer = 0; peer < count; ++peer) {
    int can = 0;
    if (peer != device &&
        cudaDeviceCanAccessPeer(&can, peer, device) == cudaSuccess &&
        can != 0) {
      cudaMemAccessDesc access{};
      access.location = {cudaMemLocationTypeDevice, {peer}};
      access.flags = cudaMemAccessFlagsProtReadWrite;
      check(cudaMemPoolSetAccess(pool, &access, 1), "peer access");
    }
  }
}

/// Leaves the stream usable when what was recorded threw.
struct StopCapture {
  cudaStream_t stream;
  bool& is_recording;
  cudaGraph_t graph = nullptr;
  bool ended = false;

  cudaGraph_t end() {
    ended = true;
    is_recording = false;
    check(cudaStreamEndCapture(stream, &graph), "recording");
    return graph;
  }
  ~StopCapture() {
    if (!ended) {
      is_recording = false;
      (void)cudaStreamEndCapture(stream, &graph);
    }
    if (graph != nullptr) {
      (void)cudaGraphDestroy(graph);
    }
  }
};

}  // namespace

void check(cudaError_t status, std::string_view place) {
  if (status == cudaSuccess) {
    return;
  }
  // A failed call also leaves its error to be fetched by the next check.
  (void)cudaGetLastError();
  const std::string cause =
      std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) {
    throw Error(Errc::out_of_memory, place, cause);
  }
  if (is_fatal(status)) {
    throw Error(Errc::device_lost, place, cause,
                "see nvidia-smi and the kernel log (Xid) for the device");
  }
  throw Error(Errc::internal, place, cause);
}

Stream::Stream(int device) : device_(device) {
  check(cudaSetDevice(device), "device");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
}

Stream::~Stream() {
  (void)cudaSetDevice(device_);
  (void)cudaStreamSynchronize(stream_);
  (void)cudaStreamDestroy(stream_);
}

Staging::Staging(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

Staging::~Staging() {
  (void)cudaSetDevice(stream_->device());
  (void)cudaStreamSynchronize(stream_->get());
  for (const Slot& slot : slots_) {
    if (slot.done != nullptr) {
      (void)cudaEventDestroy(slot.done);
    }
    if (slot.memory != nullptr) {
      (void)cudaFreeHost(slot.memory);
    }
  }
}

void Staging::next_slot() {
  if (!slots_.empty()) {
    check(cudaEventRecord(slots_[slot_].done, stream_->get()), "staging");
  }
  used_ = 0;
  if (slots_.size() < kSlots) {
    slot_ = slots_.size();
    Slot& slot = slots_.emplace_back();
    void* memory = nullptr;
    check(cudaMallocHost(&memory, kSlotBytes), "pinned memory");
    slot.memory = static_cast<std::byte*>(memory);
    check(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming),
          "staging");
    return;
  }
  slot_ = (slot_ + 1) % kSlots;
  check(cudaEventSynchronize(slots_[slot_].done), "staging");
}

void Staging::to_device(const std::byte* from, std::byte* to,
                        std::size_t bytes) {
  while (bytes > 0) {
    if (slots_.empty() || used_ == kSlotBytes) {
      next_slot();
    }
    const std::size_t now = std::min(bytes, kSlotBytes - used_);
    std::byte* staged = slots_[slot_].memory + used_;
    std::memcpy(staged, from, now);
    check(cudaMemcpyAsync(to, staged, now, cudaMemcpyHostToDevice,
                          stream_->get()),
          "copy to the device");
    used_ = std::min(kSlotBytes, (used_ + now + kStagingAlignment - 1) /
                                     kStagingAlignment * kStagingAlignment);
    from += now;
    to += now;
    bytes -= now;
  }
}

Backend::Backend(int device, const DeviceOptions& options)
    : stream_(std::make_shared<Stream>(device)),
      options_(options),
      libraries_(load_libraries()),
      staging_(stream_) {
  check(cudaDeviceGetAttribute(&num_multiprocessors_,
                               cudaDevAttrMultiProcessorCount, device),
        "device");
  prepare_pool(device);
}

Backend::~Backend() {
  (void)cudaSetDevice(device());
  (void)cudaStreamSynchronize(stream());
  forget_recordings();
}

Backend& Backend::of(ExecContext& ctx) {
  require(ctx.device_backend() != nullptr, Errc::internal, "cuda",
          "the context is not one of a GPU");
  auto& backend = static_cast<Backend&>(*ctx.device_backend());
  check(cudaSetDevice(backend.device()), "device");
  return backend;
}

std::shared_ptr<std::byte> Backend::allocate(std::size_t bytes) {
  require(!is_recording_, Errc::internal, "cuda",
          "memory is asked for while work is recorded");
  check(cudaSetDevice(device()), "device");
  void* memory = nullptr;
  // Never 0: views of empty tensors stay valid pointers.
  const std::size_t asked = std::max<std::size_t>(bytes, 1);
  const cudaError_t status = cudaMallocAsync(&memory, asked, stream());
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw Error(Errc::out_of_memory, device_name(device()),
                "cannot allocate " + std::to_string(asked) +
                    " bytes: " + std::to_string(free) + " of " +
                    std::to_string(total) + " are free",
                "use fewer samples at once, a smaller model or --dtype bf16");
  }
  check(status, device_name(device()));
  return {static_cast<std::byte*>(memory),
          [stream = stream_](std::byte* freed) {
            (void)cudaSetDevice(stream->device());
            (void)cudaFreeAsync(freed, stream->get());
          }};
}

void Backend::copy(const Tensor& from, Tensor& to) {
  check(cudaSetDevice(device()), "device");
  const std::size_t bytes = from.num_bytes();
  if (bytes == 0) {
    return;
  }
  const std::byte* source = from.bytes().data();
  std::byte* target = to.bytes().data();
  if (from.device().kind == DeviceKind::cpu) {
    require(!is_recording_, Errc::internal, "cuda",
            "host memory is read while work is recorded");
    staging_.to_device(source, target, bytes);
    return;
  }
  if (to.device().kind == DeviceKind::cpu) {
    require(!is_recording_, Errc::internal, "cuda",
            "host memory is written while work is recorded");
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost,
                          stream()),
          "copy to the host");
    synchronize();
    return;
  }
  if (from.device() == to.device()) {
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice,
                          stream()),
          "copy");
    return;
  }
  check(cudaMemcpyPeerAsync(target, to.device().index, source,
                            from.device().index, bytes, stream()),
        "copy between devices");
}

void Backend::synchronize() {
  check(cudaSetDevice(device()), "device");
  check(cudaStreamSynchronize(stream()), device_name(device()));
}

bool Backend::replay(std::span<const std::uint64_t> key,
                     const std::function<void()>& fn) {
  check(cudaSetDevice(device()), "device");
  Recording& recording = recordings_[{key.begin(), key.end()}];
  const bool calls = recording.calls < 2 || is_recording_;
  if (recording.calls == 0 || is_recording_) {
    // The first time, libraries choose their kernels and memory is taken.
    fn();
  } else if (recording.calls == 1) {
    record(recording, fn);
  }
  if (!is_recording_ && recording.graph != nullptr) {
    check(cudaGraphLaunch(recording.graph, stream()), "playback");
  }
  ++recording.calls;
  return calls;
}

void Backend::forget_recordings() {
  for (auto& [key, recording] : recordings_) {
    if (recording.graph != nullptr) {
      (void)cudaGraphExecDestroy(recording.graph);
    }
  }
  recordings_.clear();
}

void Backend::record(Recording& recording, const std::function<void()>& fn) {
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal),
        "recording");
  StopCapture capture{stream(), is_recording_};
  is_recording_ = true;
  fn();
  cudaGraph_t graph = capture.end();
  check(cudaGraphInstantiate(&recording.graph, graph, 0), "recording");
}

}  // namespace troupe::kernels::cuda

namespace troupe {

std::shared_ptr<DeviceBackend> make_device_backend(
    Device device, const DeviceOptions& options) {
  const kernels::CudaDevices found = kernels::cuda_devices();
  const auto count = static_cast<int>(found.devices.size());
  if (count == 0) {
    throw Error(Errc::unsupported, to_string(device),
                "no GPU can be used: " + found.why_none,
                "run on the CPU (--device cpu), or see troupe doctor");
  }
  if (device.index < 0 || device.index >= count) {
    throw Error(
        Errc::unsupported, to_string(device),
        "there is no such GPU: this machine has " + std::to_string(count),
        "choose cuda:0 to cuda:" + std::to_string(count - 1));
  }
  return std::make_shared<kernels::cuda::Backend>(device.index, options);
}

}  // namespace troupe
