#pragma once

#include <memory>
#include <vector>

#include "kernels/core/device_backend.h"
#include "kernels/core/tensor.h"

namespace troupe {

/// A point in a context's queue (`ExecContext::mark`). The mark has passed when
/// all work queued before it is done; later work does not count. So the host
/// can read the results of one piece of work while the device does the next.
///
/// The mark holds the tensors that were given to `ExecContext::keep`, and
/// releases the tensors once `has_passed` or `wait` finds that the mark has
/// passed. The destructor waits for the mark, because the queue may still read
/// the tensors. A mark may outlive its context.
/// Thread: any, one at a time; not the one that records the queue's work.
class QueueMark {
 public:
  /// One that has passed.
  QueueMark() = default;
  /// Without an event it has passed and holds nothing.
  QueueMark(std::unique_ptr<DeviceEvent> event,
            std::vector<Tensor> kept) noexcept;
  QueueMark(QueueMark&&) noexcept = default;
  /// Ends its former value as the destructor does.
  QueueMark& operator=(QueueMark&& other) noexcept;
  /// Waits until it has passed. Does not wait for a lost device, which reads
  /// nothing more.
  ~QueueMark();

  /// Does not wait. Once true, it stays true. Errors: as DeviceBackend.
  [[nodiscard]] bool has_passed();
  /// Returns when it has passed. Errors: as DeviceBackend.
  void wait();

 private:
  void let_go() noexcept;

  std::unique_ptr<DeviceEvent> event_;  ///< null: has passed
  std::vector<Tensor> kept_;
};

}  // namespace troupe
