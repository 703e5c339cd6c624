#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <typeindex>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/device_backend.h"
#include "kernels/cuda/libraries.cuh"

namespace troupe::kernels::cuda {

/// Throws what `status` means: Errc::out_of_memory, Errc::device_lost for
/// errors after which the device's context is dead, Errc::internal otherwise.
void check(cudaError_t status, std::string_view place);

/// A stream that outlives its backend while memory of it is in use. Work and
/// releases of memory are ordered by it. Thread: any.
class Stream {
 public:
  explicit Stream(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

/// Pinned memory through which host data reach the device: the source may be
/// reused as soon as a copy is queued. A few slots take turns; one is written
/// again when the copies from it are done. Thread: one.
class Staging {
 public:
  explicit Staging(std::shared_ptr<Stream> stream);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void to_device(const std::byte* from, std::byte* to, std::size_t bytes);

 private:
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  void next_slot();

  std::shared_ptr<Stream> stream_;
  std::vector<Slot> slots_;
  std::size_t slot_ = 0;
  std::size_t used_ = 0;
};

/// What a GPU is to one ExecContext: a stream, library handles, recorded
/// graphs, and the operations' own state.
class Backend final : public DeviceBackend {
 public:
  /// Errors: Errc::unsupported when the device or a library is missing.
  Backend(int device, const DeviceOptions& options);
  ~Backend() override;

  /// The backend of a CUDA context; makes its device the thread's current one.
  [[nodiscard]] static Backend& of(ExecContext& ctx);

  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(const Tensor& from, Tensor& to) override;
  void synchronize() override;
  bool replay(std::span<const std::uint64_t> key,
              const std::function<void()>& fn) override;
  void forget_recordings() override;

  [[nodiscard]] int device() const noexcept { return stream_->device(); }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_->get(); }
  [[nodiscard]] const DeviceOptions& options() const noexcept {
    return options_;
  }
  [[nodiscard]] int num_multiprocessors() const noexcept {
    return num_multiprocessors_;
  }
  [[nodiscard]] const Libraries& libraries() const noexcept {
    return libraries_;
  }
  /// True while `replay` records: nothing may be allocated or waited for.
  [[nodiscard]] bool is_recording() const noexcept { return is_recording_; }

  /// State that an operation keeps between calls (handles, chosen algorithms,
  /// plans), made on first use as State(*this).
  template <typename State>
  [[nodiscard]] State& state() {
    std::shared_ptr<void>& slot = states_[typeid(State)];
    if (!slot) {
      slot = std::make_shared<State>(*this);
    }
    return *static_cast<State*>(slot.get());
  }

 private:
  struct Recording {
    std::uint64_t calls = 0;
    cudaGraphExec_t graph = nullptr;
  };
  void record(Recording& recording, const std::function<void()>& fn);

  std::shared_ptr<Stream> stream_;
  DeviceOptions options_;
  Libraries libraries_;
  int num_multiprocessors_ = 0;
  bool is_recording_ = false;
  Staging staging_;
  std::map<std::vector<std::uint64_t>, Recording> recordings_;
  std::map<std::type_index, std::shared_ptr<void>> states_;
};

}  // namespace troupe::kernels::cuda
