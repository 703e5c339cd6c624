#include "kernels/cuda/stream.cuh"

#include <atomic>
#include <cstdint>
#include <string>

#include "kernels/core/device.h"
#include "kernels/core/error.h"

namespace troupe::kernels::cuda {
namespace {

/// A bit for every device that has had a stream.
std::atomic<std::uint64_t>& devices_with_streams() {
  static std::atomic<std::uint64_t> devices{0};
  return devices;
}

bool has_streams(int device) noexcept {
  return (devices_with_streams() >> static_cast<unsigned>(device) & 1U) != 0;
}

/// After these a context answers every call with the same error (CUDA runtime
/// reference, cudaError_t).
bool is_fatal(cudaError_t status) {
  // cudaErrorContained, which CUDA 12.4 does not name yet.
  constexpr int kContained = 226;
  if (static_cast<int>(status) == kContained) {
    return true;
  }
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
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

std::uint64_t pool_bytes(int device, cudaMemPoolAttr attribute) {
  cudaMemPool_t pool = nullptr;
  std::uint64_t bytes = 0;
  ignore(cudaDeviceGetDefaultMemPool(&pool, device));
  ignore(cudaMemPoolGetAttribute(pool, attribute, &bytes));
  return bytes;
}

[[noreturn]] void throw_device_full(int device, std::size_t asked) {
  std::size_t free = 0;
  std::size_t total = 0;
  ignore(cudaMemGetInfo(&free, &total));
  // What the pool keeps for the next request is free too.
  free += pool_bytes(device, cudaMemPoolAttrReservedMemCurrent) -
          pool_bytes(device, cudaMemPoolAttrUsedMemCurrent);
  throw Error(Errc::device_full, to_string(Device{DeviceKind::cuda, device}),
              "cannot allocate " + std::to_string(asked) +
                  " bytes: " + std::to_string(free) + " of " +
                  std::to_string(total) + " are free",
              "use fewer samples at once, a smaller model or --dtype bf16");
}

/// Lets a recording thread release memory on another stream, outside the
/// recording; without this, such a call spoils the recording.
class OutsideOfRecordings {
 public:
  OutsideOfRecordings() noexcept {
    ignore(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~OutsideOfRecordings() {
    ignore(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  OutsideOfRecordings(const OutsideOfRecordings&) = delete;
  OutsideOfRecordings& operator=(const OutsideOfRecordings&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct DestroyGraph {
  cudaGraph_t graph = nullptr;
  ~DestroyGraph() {
    if (graph != nullptr) {
      ignore(cudaGraphDestroy(graph));
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
    throw Error(Errc::device_full, place, cause);
  }
  if (is_fatal(status)) {
    throw Error(Errc::device_lost, place, cause,
                "see nvidia-smi and the kernel log (Xid) for the device");
  }
  throw Error(Errc::internal, place, cause);
}

void ignore(cudaError_t status) noexcept {
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
  }
}

void check_alive(std::string_view place) {
  std::size_t free = 0;
  std::size_t total = 0;
  const cudaError_t status = cudaMemGetInfo(&free, &total);
  if (is_fatal(status)) {
    check(status, place);
  }
  ignore(status);
}

std::recursive_mutex& set_up_mutex() {
  // Tensors may be released when main is over.
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

void trim_pool(int device) noexcept {
  cudaMemPool_t pool = nullptr;
  ignore(cudaDeviceGetDefaultMemPool(&pool, device));
  ignore(cudaMemPoolTrimTo(pool, 0));
}

OnDevice::OnDevice(int device) noexcept {
  ignore(cudaGetDevice(&before_));
  ignore(cudaSetDevice(device));
}

OnDevice::~OnDevice() {
  // CUDA reports device 0 for a thread without a device: a switch back would
  // initialise device 0 without need.
  if (has_streams(before_)) {
    ignore(cudaSetDevice(before_));
  }
}

Stream::Stream(int device) : device_(device) {
  check(cudaSetDevice(device), "device");
  devices_with_streams() |= std::uint64_t{1} << static_cast<unsigned>(device);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
}

Stream::~Stream() {
  if (is_abandoned_) {
    return;
  }
  const OnDevice on(device_);
  // What is queued is done first.
  ignore(cudaStreamDestroy(stream_));
}

std::unique_lock<std::mutex> Stream::wait_for_recording() {
  std::unique_lock lock(mutex_);
  recorded_.wait(lock, [&] { return recorder_ == std::thread::id(); });
  return lock;
}

void Stream::refuse_if_abandoned() const {
  require(!is_abandoned_, Errc::device_lost,
          to_string(Device{DeviceKind::cuda, device_}), "its queue hangs",
          "see nvidia-smi and the kernel log (Xid) for the device");
}

void Stream::refuse_while_recording(std::string_view what) {
  const std::scoped_lock lock(mutex_);
  require(recorder_ != std::this_thread::get_id(), Errc::internal, "cuda",
          what);
}

std::byte* Stream::allocate(std::size_t bytes) {
  refuse_while_recording("memory is asked for while work is recorded");
  const auto lock = wait_for_recording();
  const OnDevice on(device_);
  void* memory = nullptr;
  cudaError_t status = cudaMallocAsync(&memory, bytes, stream_);
  if (status == cudaErrorMemoryAllocation) {
    // What was given back may still be in use, or lie in pieces too small.
    ignore(status);
    check(cudaStreamSynchronize(stream_), "memory");
    trim_pool(device_);
    status = cudaMallocAsync(&memory, bytes, stream_);
  }
  if (status == cudaErrorMemoryAllocation) {
    ignore(status);
    throw_device_full(device_, bytes);
  }
  check(status, to_string(Device{DeviceKind::cuda, device_}));
  return static_cast<std::byte*>(memory);
}

void Stream::release(std::byte* memory) noexcept {
  const std::scoped_lock lock(mutex_);
  if (recorder_ != std::thread::id()) {
    released_.push_back(memory);
    return;
  }
  const OnDevice on(device_);
  const OutsideOfRecordings apart;
  ignore(cudaFreeAsync(memory, stream_));
}

Stream::Recording::Recording(Stream& stream)
    : stream_(stream), lock_(set_up_mutex()) {
  const auto lock = stream_.wait_for_recording();
  // Calls of other threads do not matter to it.
  check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
        "recording");
  stream_.recorder_ = std::this_thread::get_id();
}

cudaGraphExec_t Stream::Recording::end() {
  is_capturing_ = false;
  DestroyGraph recorded;
  check(cudaStreamEndCapture(stream_.get(), &recorded.graph), "recording");
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, recorded.graph, 0), "recording");
  return executable;
}

Stream::Recording::~Recording() {
  if (is_capturing_) {
    DestroyGraph recorded;
    ignore(cudaStreamEndCapture(stream_.get(), &recorded.graph));
  }
  std::vector<std::byte*> released;
  {
    const std::scoped_lock lock(stream_.mutex_);
    stream_.recorder_ = {};
    released.swap(stream_.released_);
  }
  stream_.recorded_.notify_all();
  for (std::byte* memory : released) {
    stream_.release(memory);
  }
}

}  // namespace troupe::kernels::cuda
