#include "kernels/cuda/backend.cuh"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/stream_event.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr int kOldestMajor = 8;

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
    if (peer != device) {
      ignore(cudaDeviceCanAccessPeer(&can, peer, device));
    }
    if (can != 0) {
      cudaMemAccessDesc access{};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = peer;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      // Faster where it works; copies find another way.
      ignore(cudaMemPoolSetAccess(pool, &access, 1));
    }
  }
}

}  // namespace

Backend::Backend(int device, const DeviceOptions& options)
    : stream_(std::make_shared<Stream>(device)),
      options_(options),
      libraries_(load_libraries()),
      staging_(stream_),
      pinned_(std::make_shared<PinnedPool>(stream_)) {
  check(cudaDeviceGetAttribute(&num_multiprocessors_,
                               cudaDevAttrMultiProcessorCount, device),
        "device");
  prepare_pool(device);
}

Backend::~Backend() {
  const std::scoped_lock lock(set_up_mutex());
  if (stream_->is_abandoned()) {
    // Their destructors wait for the device.
    static auto* const kept = new std::vector<decltype(states_)>;
    kept->push_back(std::move(states_));
    return;
  }
  const OnDevice on(device());
  ignore(cudaStreamSynchronize(stream()));
  forget_recordings();
  destroy_forgotten();
  states_.clear();
  // Of one that loaded a model, more than any other needs.
  ignore(cudaStreamSynchronize(stream()));
  trim_pool(device());
}

Backend& Backend::of(ExecContext& ctx) {
  require(ctx.device_backend() != nullptr, Errc::internal, "cuda",
          "the context is not one of a GPU");
  auto& backend = static_cast<Backend&>(*ctx.device_backend());
  check(cudaSetDevice(backend.device()), "device");
  return backend;
}

std::shared_ptr<std::byte> Backend::allocate(std::size_t bytes) {
  // Never 0: views of empty tensors stay valid pointers.
  return {stream_->allocate(std::max<std::size_t>(bytes, 1)),
          [stream = stream_](std::byte* memory) { stream->release(memory); }};
}

void Backend::copy(const Tensor& from, Tensor& to) {
  check(cudaSetDevice(device()), "device");
  const std::size_t bytes = from.num_bytes();
  if (bytes == 0) {
    return;
  }
  const Device here{DeviceKind::cuda, device()};
  require(from.device() == here || to.device() == here, Errc::internal, "cuda",
          "a copy from " + to_string(from.device()) + " to " +
              to_string(to.device()) + " is none of " + to_string(here));
  const std::byte* source = from.bytes().data();
  std::byte* target = to.bytes().data();
  if (from.device().kind == DeviceKind::cpu) {
    require(!is_recording_, Errc::internal, "cuda",
            "host memory is read while work is recorded");
    staging_.to_device(source, target, bytes);
  } else if (to.device().kind == DeviceKind::cpu) {
    require(!is_recording_, Errc::internal, "cuda",
            "host memory is written while work is recorded");
    if (on_wait_) {
      synchronize();  // the copy itself waits for the queue
    }
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost,
                          stream()),
          "copy to the host");
    synchronize();
  } else if (from.device() == to.device()) {
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice,
                          stream()),
          "copy");
  } else {
    // Through the host where the devices cannot see each other's memory.
    check(cudaMemcpyPeerAsync(target, to.device().index, source,
                              from.device().index, bytes, stream()),
          "copy between devices");
  }
}

void Backend::copy_columns(const Tensor& from, std::int64_t from_first,
                           Tensor& to, std::int64_t to_first,
                           std::int64_t count) {
  check(cudaSetDevice(device()), "device");
  const Device here{DeviceKind::cuda, device()};
  require(to.device() == here && from.device().kind == DeviceKind::cuda,
          Errc::internal, "cuda",
          "columns of " + to_string(from.device()) + " for " +
              to_string(to.device()) + " on " + to_string(here));
  const auto rows = static_cast<std::size_t>(to.dim(0));
  const auto bytes_of = [&](std::int64_t columns) {
    return static_cast<std::size_t>(columns) * size_of(to.dtype());
  };
  const std::size_t from_pitch = from.num_bytes() / rows;
  const std::size_t to_pitch = to.num_bytes() / rows;
  // Nothing is written through the source.
  auto* source =
      const_cast<std::byte*>(from.bytes().data()) + bytes_of(from_first);
  std::byte* target = to.bytes().data() + bytes_of(to_first);
  const std::size_t width = bytes_of(count);
  if (from.device() == here) {
    return check(cudaMemcpy2DAsync(target, to_pitch, source, from_pitch, width,
                                   rows, cudaMemcpyDeviceToDevice, stream()),
                 "copy");
  }
  // Through the host where the devices cannot see each other's memory.
  cudaMemcpy3DPeerParms copy{};
  copy.srcPtr = {source, from_pitch, width, rows};
  copy.srcDevice = from.device().index;
  copy.dstPtr = {target, to_pitch, width, rows};
  copy.dstDevice = device();
  copy.extent = {width, rows, 1};
  check(cudaMemcpy3DPeerAsync(&copy, stream()), "copy between devices");
}

Tensor Backend::read_back(const Tensor& from) {
  require(!is_recording_, Errc::internal, "cuda",
          "host memory is written while work is recorded");
  check(cudaSetDevice(device()), "device");
  const Device here{DeviceKind::cuda, device()};
  require(from.device() == here, Errc::internal, "cuda",
          "a tensor of " + to_string(from.device()) + " is none of " +
              to_string(here));
  if (from.empty()) {
    return {from.shape(), from.dtype()};
  }
  Tensor host(pinned_->take(from.num_bytes()), from.shape(), from.dtype());
  check(cudaMemcpyAsync(host.bytes().data(), from.bytes().data(),
                        from.num_bytes(), cudaMemcpyDeviceToHost, stream()),
        "copy to the host");
  return host;
}

std::unique_ptr<DeviceEvent> Backend::mark() {
  require(!is_recording_, Errc::internal, "cuda",
          "a mark is set while work is recorded");
  check(cudaSetDevice(device()), "device");
  return std::make_unique<StreamEvent>(stream_, counter_);
}

void Backend::wait_for(const DeviceEvent& event) {
  require(!is_recording_, Errc::internal, "cuda",
          "another queue is waited for while work is recorded");
  check(cudaSetDevice(device()), "device");
  if (auto held_by = static_cast<const StreamEvent&>(event).hold(stream())) {
    held_by_.insert(std::move(held_by));
  }
}

void Backend::synchronize() {
  require(!is_recording_, Errc::internal, "cuda",
          "the host waits while work is recorded");
  const std::string here = to_string(Device{DeviceKind::cuda, device()});
  check(cudaSetDevice(device()), here);
  stream_->refuse_if_abandoned();
  if (!on_wait_) {
    check(cudaStreamSynchronize(stream()), here);
    return destroy_forgotten();
  }
  cudaError_t status = cudaStreamQuery(stream());
  while (status == cudaErrorNotReady) {
    ignore(status);
    on_wait_();
    std::this_thread::yield();
    status = cudaStreamQuery(stream());
  }
  check(status, here);
  held_by_.clear();  // all waits are over
  destroy_forgotten();
}

std::shared_ptr<QueueWatch> Backend::watch(std::function<void()> on_wait) {
  if (!on_wait) {
    counter_ = nullptr;
  } else if (!counter_) {
    const OnDevice on(device());
    counter_ = std::make_shared<MarkCounter>(stream_, libraries_.driver);
  }
  on_wait_ = std::move(on_wait);
  return counter_;
}

bool Backend::replay(std::span<const std::uint64_t> key,
                     const std::function<void()>& fn) {
  check(cudaSetDevice(device()), "device");
  if (is_recording_) {
    // Becomes part of the recording around it.
    fn();
    return true;
  }
  const std::vector<std::uint64_t> name(key.begin(), key.end());
  Recording& known = recordings_[name];
  if (!known.has_run) {
    // The first time, libraries choose their kernels and memory is taken.
    fn();
    recordings_[name].has_run = true;  // fn may have forgotten all
    return true;
  }
  if (known.pieces.empty()) {
    Pieces pieces = record(fn);
    recordings_[name].pieces = std::move(pieces);
    return true;
  }
  for (const Piece& piece : known.pieces) {
    check(cudaGraphLaunch(piece.graph, stream()), "playback");
    if (piece.then) {
      piece.then();
    }
  }
  return false;
}

/// Until a piece is launched, memory that was released is still in use by the
/// recorded work.
class Backend::Recorder {
 public:
  explicit Recorder(Backend& backend) : backend_(backend) {
    backend_.recorder_ = this;
    begin();
  }
  ~Recorder() {
    backend_.is_recording_ = false;
    backend_.recorder_ = nullptr;
    for (const Piece& piece : pieces_) {
      backend_.forgotten_.push_back(piece.graph);  // may still be running
    }
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void cut(const std::function<void()>& then) {
    end(then);
    then();
    begin();
  }
  [[nodiscard]] Pieces finish() {
    end({});
    return std::exchange(pieces_, {});
  }

 private:
  void begin() {
    piece_.emplace(*backend_.stream_);
    backend_.is_recording_ = true;
  }
  void end(std::function<void()> then) {
    backend_.is_recording_ = false;
    // What was recorded may have used another device's context too.
    check(cudaSetDevice(backend_.device()), "device");
    pieces_.push_back({piece_->end(), std::move(then)});
    check(cudaGraphLaunch(pieces_.back().graph, backend_.stream()), "playback");
    piece_.reset();
  }

  Backend& backend_;
  std::optional<Stream::Recording> piece_;
  Pieces pieces_;
};

Backend::Pieces Backend::record(const std::function<void()>& fn) {
  // Whoever only takes marks would let them pile up. Seldom: memory has grown.
  if (!forgotten_.empty()) {
    synchronize();
  }
  Recorder recorder(*this);
  fn();
  return recorder.finish();
}

void Backend::between(const std::function<void()>& fn) {
  if (recorder_ != nullptr) {
    recorder_->cut(fn);
  } else {
    fn();
  }
}

void Backend::forget_recordings() {
  for (auto& [key, recording] : recordings_) {
    for (const Piece& piece : recording.pieces) {
      forgotten_.push_back(piece.graph);
    }
  }
  recordings_.clear();
}

void Backend::destroy_forgotten() noexcept {
  for (cudaGraphExec_t graph : forgotten_) {
    ignore(cudaGraphExecDestroy(graph));
  }
  forgotten_.clear();
}

}  // namespace troupe::kernels::cuda

namespace troupe {

std::shared_ptr<DeviceBackend> make_device_backend(
    Device device, const DeviceOptions& options) {
  const kernels::CudaDevices found = kernels::cuda_devices();
  if (found.devices.empty()) {
    throw Error(Errc::unsupported, to_string(device),
                "no GPU can be used: " + found.why_none,
                "run on the CPU (--device cpu), or see troupe doctor");
  }
  const auto it = std::ranges::find(found.devices, device.index,
                                    &kernels::CudaDevice::index);
  if (it == found.devices.end()) {
    throw Error(Errc::unsupported, to_string(device),
                "there is no such GPU: this machine has " +
                    std::to_string(found.devices.size()),
                "choose one that troupe doctor lists");
  }
  if (it->compute_major < kernels::cuda::kOldestMajor) {
    throw Error(Errc::unsupported, to_string(device),
                it->name + " is of compute capability " +
                    std::to_string(it->compute_major) + "." +
                    std::to_string(it->compute_minor) + ", which is too old",
                "choose an NVIDIA GPU from Ampere (8.0) on, or run on the CPU "
                "(--device cpu)");
  }
  const std::scoped_lock lock(kernels::cuda::set_up_mutex());
  return std::make_shared<kernels::cuda::Backend>(device.index, options);
}

}  // namespace troupe
