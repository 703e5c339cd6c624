#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/core/device_backend.h"
#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// An event behind everything queued on a stream so far.
class StreamEvent final : public DeviceEvent {
 public:
  /// The stream's device is the thread's current one.
  /// Errors: Errc::device_lost, Errc::device_full.
  explicit StreamEvent(std::shared_ptr<Stream> stream);
  ~StreamEvent() override;
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }
  bool has_passed() override;
  void wait() override;

 private:
  /// The place in errors: the device.
  [[nodiscard]] std::string where() const;

  std::shared_ptr<Stream> stream_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace troupe::kernels::cuda
