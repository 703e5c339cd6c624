#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/core/device_backend.h"
#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// The moment behind everything queued on a stream so far.
class StreamMoment final : public Moment {
 public:
  /// The stream's device is the thread's current one.
  /// Errors: Errc::device_lost, Errc::device_full.
  explicit StreamMoment(std::shared_ptr<Stream> stream);
  ~StreamMoment() override;
  StreamMoment(const StreamMoment&) = delete;
  StreamMoment& operator=(const StreamMoment&) = delete;

  bool has_passed() override;
  void wait() override;

 private:
  /// For the places of errors.
  [[nodiscard]] std::string where() const;

  std::shared_ptr<Stream> stream_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace troupe::kernels::cuda
