#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::kernels::cuda {

/// Throws the error that `status` means: Errc::device_full; Errc::device_lost
/// for errors after which the device's context is dead; otherwise
/// Errc::internal.
void check(cudaError_t status, std::string_view place);

/// For calls whose failure cannot be thrown: clears the error, so that the next
/// check does not report it.
void ignore(cudaError_t status) noexcept;

/// Throws if the device is lost. For errors of libraries that have a CUDA
/// runtime of their own and do not say so. Errors: Errc::device_lost.
void check_alive(std::string_view place);

/// Gives memory that the device's pool keeps for later requests back to the
/// driver, for users that do not ask the pool: libraries, modules, recordings.
/// Memory that queued work uses stays.
void trim_pool(int device) noexcept;

/// Held while work is recorded, and while library handles, pinned memory or
/// backends are made or destroyed. The latter call device-wide functions, which
/// can spoil a recording, also one of another thread (seen with cuBLAS handles:
/// ggml, github.com/ggml-org/llama.cpp/pull/14288).
[[nodiscard]] std::recursive_mutex& set_up_mutex();

/// Makes a device the calling thread's current one, and in the end the former
/// one again if that was ever used. For memory that is released on any thread.
class OnDevice {
 public:
  explicit OnDevice(int device) noexcept;
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

/// A CUDA stream. Work runs and memory is released in the stream's order. A
/// stream outlives its backend while stream memory is in use.
class Stream {
 public:
  /// Makes the device the thread's current one.
  explicit Stream(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

  /// Throws on the thread that records: for what cannot be part of a recording.
  /// `what` is the message. Errors: Errc::internal. Thread: any.
  void refuse_while_recording(std::string_view what);

  /// Allocates memory in the stream's order. Waits while another thread
  /// records, because an allocation would become part of the recording. If
  /// there is too little memory, it waits for the stream and tries again.
  /// Errors: Errc::device_full with the numbers, Errc::device_lost;
  /// Errc::internal for the thread that records. Thread: any.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Releases memory in the stream's order; while work is recorded, after the
  /// recording. Thread: any.
  void release(std::byte* memory) noexcept;

  /// From here on nothing may wait for the stream, which hangs
  /// (QueueWatch::abandon). Thread: any.
  void abandon() noexcept { is_abandoned_ = true; }
  [[nodiscard]] bool is_abandoned() const noexcept { return is_abandoned_; }
  /// To be called before a wait. Errors: Errc::device_lost. Thread: any.
  void refuse_if_abandoned() const;

  /// Records what its thread queues on the stream, from the constructor to
  /// `end`. Without `end` the recording is dropped and the stream is as it was
  /// before.
  class Recording {
   public:
    explicit Recording(Stream& stream);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    /// The recorded graph, ready to be launched; the caller destroys it.
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
  std::atomic<bool> is_abandoned_ = false;
  std::mutex mutex_;
  std::condition_variable recorded_;
  /// The thread that records; default-constructed if none does.
  std::thread::id recorder_;
  std::vector<std::byte*> released_;  ///< to be released after the recording
};

}  // namespace troupe::kernels::cuda
