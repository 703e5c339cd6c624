#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::kernels::cuda {

/// Throws what `status` means: Errc::device_full, Errc::device_lost for
/// errors after which the device's context is dead, Errc::internal otherwise.
void check(cudaError_t status, std::string_view place);

/// Where nothing can be thrown: a failure is not left for the next check.
void ignore(cudaError_t status) noexcept;

/// For errors of libraries, which have a CUDA runtime of their own and do not
/// say that the device is lost. Errors: Errc::device_lost.
void check_alive(std::string_view place);

/// Hands what the device's pool keeps for the next request to whoever does not
/// ask the pool: libraries, modules, recordings. Only what no queued work uses.
void trim_pool(int device) noexcept;

/// Held while something is recorded, and by whatever makes or destroys library
/// handles, pinned memory or backends: those call device-wide functions, which
/// can spoil a recording of another thread too (seen with cuBLAS handles: ggml,
/// github.com/ggml-org/llama.cpp/pull/14288).
[[nodiscard]] std::recursive_mutex& set_up_mutex();

/// Makes a device the calling thread's current one, and then the former again,
/// if that was ever used: memory is released wherever its last owner ends.
class OnDevice {
 public:
  explicit OnDevice(int device) noexcept;
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

/// A stream that outlives its backend while memory of it is in use. Work and
/// releases of memory are ordered by it.
class Stream {
 public:
  /// Makes the device the thread's current one.
  explicit Stream(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

  /// For what cannot be part of a recording; `what` is the message.
  /// Errors: Errc::internal for the thread that records. Thread: any.
  void refuse_while_recording(std::string_view what);

  /// Memory in the stream's order. While another thread records, it waits: an
  /// allocation would become part of the recording. Where there is too little,
  /// it waits for the stream and asks again.
  /// Errors: Errc::device_full with the numbers, Errc::device_lost;
  /// Errc::internal for the thread that records. Thread: any.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Gives it back in the stream's order; while something is recorded, behind
  /// it. Thread: any.
  void release(std::byte* memory) noexcept;

  /// Records what its thread queues on the stream, from the constructor to
  /// `end`; work before `end` that failed leaves the stream as it was.
  class Recording {
   public:
    explicit Recording(Stream& stream);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    /// The work, ready to be launched; the caller destroys it.
    [[nodiscard]] cudaGraphExec_t end();

   private:
    Stream& stream_;
    std::unique_lock<std::recursive_mutex> lock_;
    bool is_capturing_ = true;
  };

 private:
  [[nodiscard]] std::unique_lock<std::mutex> wait_for_recording();

  int device_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;
  std::condition_variable recorded_;
  /// Of the thread that records; none: the default.
  std::thread::id recorder_;
  std::vector<std::byte*> released_;  ///< while something was recorded
};

}  // namespace troupe::kernels::cuda
