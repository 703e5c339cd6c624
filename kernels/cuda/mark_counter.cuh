#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/core/device_backend.h"
#include "kernels/cuda/libraries.cuh"
#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// The place in errors of a wait for another queue.
inline constexpr std::string_view kWaitPlace = "wait for another queue";

/// Counts the marks of a stream in memory that the host and all devices see.
/// Other streams wait for a count, and the host can end such a wait. Nothing
/// ends the wait for an event whose stream hangs.
class MarkCounter final : public QueueWatch {
 public:
  /// The stream's device is the thread's current one. Errors: as pin_memory;
  /// Errc::unsupported where the driver cannot count.
  MarkCounter(std::shared_ptr<Stream> stream, const Driver& driver);
  ~MarkCounter() override;
  MarkCounter(const MarkCounter&) = delete;
  MarkCounter& operator=(const MarkCounter&) = delete;

  /// Queues one more mark, and returns its number. The stream's device is the
  /// thread's current one. Thread: one at a time.
  [[nodiscard]] std::uint32_t add();
  /// Queues on a stream of the thread's current device that what comes later
  /// waits for mark `number`.
  void hold(cudaStream_t stream, std::uint32_t number) const;

  [[nodiscard]] std::uint32_t marks_set() const override { return set_; }
  [[nodiscard]] std::uint32_t marks_passed() const override;
  void release_waiters() override;
  void abandon() override { stream_->abandon(); }

 private:
  [[nodiscard]] CUdeviceptr address() const;

  std::shared_ptr<Stream> stream_;
  Driver driver_;
  std::uint32_t* passed_ = nullptr;  ///< pinned
  std::atomic<std::uint32_t> set_ = 0;
};

}  // namespace troupe::kernels::cuda
