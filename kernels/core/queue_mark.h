#pragma once

#include <memory>
#include <vector>

#include "kernels/core/device_backend.h"
#include "kernels/core/tensor.h"

namespace troupe {

/// A moment in a context's queue (`ExecContext::mark`): passed when everything
/// that was queued before it is done, whatever was queued after it. So a host
/// reads the results of one piece of work while the device does the next.
///
/// It holds what the context had to `keep`, and lets go of it when it is found
/// to have passed. One that ends earlier waits first: the queue still reads
/// that memory. It may outlive its context.
/// Thread: any, one at a time; not the one that records the queue's work.
class QueueMark {
 public:
  /// Has passed.
  QueueMark() = default;
  /// Without a moment it has passed and holds nothing.
  QueueMark(std::unique_ptr<Moment> moment, std::vector<Tensor> kept) noexcept;
  QueueMark(QueueMark&&) noexcept = default;
  /// What it was before ends as in the destructor.
  QueueMark& operator=(QueueMark&& other) noexcept;
  /// Waits for what has not passed; a lost device reads nothing any more and
  /// is not waited for.
  ~QueueMark();

  /// Does not wait. Once true, it stays true. Errors: as DeviceBackend.
  [[nodiscard]] bool has_passed();
  /// Returns when it has passed. Errors: as DeviceBackend.
  void wait();

 private:
  void let_go() noexcept;

  std::unique_ptr<Moment> moment_;  ///< null: has passed
  std::vector<Tensor> kept_;
};

}  // namespace troupe
