#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "samplers/parallel/task_runner.h"

namespace troupe::samplers {

/// Stands in front of a worker and joins ready tasks of any samples into groups
/// that run as one forward pass: windows of different samples, begun and
/// retired at different times. Sound because rows of a forward do not see each
/// other, in values or in bits.
///
/// Order: tasks without a forward (combine, step, sweep) first, since they make
/// new evaluations ready; then decodes; then the kind of forward whose oldest
/// task has waited longest, filled up with tasks of that kind in order of
/// arrival. So no task is overtaken by more than one group of younger ones of
/// its own kind, and none waits for ever.
/// Thread: one; a policy without I/O or clock.
class Packer {
 public:
  void push(BoundTask task);
  /// The next group, taken off the queue; empty when nothing waits. At most
  /// `max_rows` tasks if they go through the network (at least one).
  [[nodiscard]] std::vector<BoundTask> next(int max_rows);
  /// Takes all tasks of a sample off the queue (it was cancelled or moved).
  void remove(std::uint64_t sample_index);
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }

 private:
  std::vector<BoundTask> cheap_;
  std::deque<BoundTask> decodes_;
  std::deque<BoundTask> forwards_;  ///< oldest first
};

}  // namespace troupe::samplers
