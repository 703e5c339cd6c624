#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "kernels/core/context.h"
#include "kernels/core/device.h"
#include "kernels/core/tensor.h"

namespace troupe::actors {

/// Copies tensors of GPUs to the host for those who are no executor. A worker's
/// context is its thread's, so each GPU has one context more here, from its
/// first copy on. Thread: any; copies from one GPU come one after the other.
class HostReader {
 public:
  /// The tensor itself if it is on the host. Returns when the copy is complete.
  /// Errors: those of ExecContext and kernels::on_host. The next copy from this
  /// GPU then gets a new context.
  [[nodiscard]] Tensor read(const Tensor& tensor);

 private:
  struct Lane {
    std::mutex mutex;
    std::unique_ptr<ExecContext> context;
  };
  [[nodiscard]] Lane& lane_of(const Device& device);

  std::mutex mutex_;
  std::map<int, Lane> lanes_;  ///< by the number of the GPU
};

}  // namespace troupe::actors
