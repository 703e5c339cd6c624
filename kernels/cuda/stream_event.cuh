#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/core/device_backend.h"
#include "kernels/cuda/mark_counter.cuh"
#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// An event behind everything queued on a stream so far.
class StreamEvent final : public DeviceEvent {
 public:
  /// counter: of the stream, or null. The stream's device is the thread's
  /// current one. Errors: Errc::device_lost, Errc::device_full.
  StreamEvent(std::shared_ptr<Stream> stream,
              std::shared_ptr<MarkCounter> counter);
  ~StreamEvent() override;
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  /// Queues on a stream of the thread's current device that what comes later
  /// waits for the event. Returns what must outlive the wait, or null.
  [[nodiscard]] std::shared_ptr<MarkCounter> hold(cudaStream_t stream) const;
  bool has_passed() override;
  void wait() override;

 private:
  /// The place in errors: the device.
  [[nodiscard]] std::string where() const;

  std::shared_ptr<Stream> stream_;
  std::shared_ptr<MarkCounter> counter_;
  std::uint32_t number_ = 0;  ///< of the counter
  cudaEvent_t event_ = nullptr;
};

}  // namespace troupe::kernels::cuda
