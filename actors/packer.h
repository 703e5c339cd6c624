#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "actors/grant.h"

namespace troupe::actors {

/// The ready tasks of a worker. Joins tasks of one kind, of any samples, into
/// groups that run as one forward pass: windows of different samples, begun and
/// retired at different times. Sound because rows of a forward do not see each
/// other, in values or in bits.
///
/// Order: tasks that are not heavy first, since they make
/// new evaluations ready; then the task that came first, filled up with tasks
/// of its kind in the order in which they came. So the samples of a pipeline go
/// on side by side, and none is left alone at the end. A heavy task that does
/// not join others runs by itself. Thread: one; without I/O or clock.
class Packer {
 public:
  void push(SampleTask task);
  /// The next group, taken off; empty when nothing waits. At most `max_rows`
  /// tasks if they go through the network (at least one).
  [[nodiscard]] std::vector<SampleTask> next(int max_rows);
  /// Takes off the tasks of a sample, of its runs up to `last_run`.
  std::vector<SampleTask> drop(std::uint64_t sample_index,
                               std::uint32_t last_run);
  /// Takes off the tasks of these grants.
  std::vector<SampleTask> take(const std::set<std::uint64_t>& grants);
  [[nodiscard]] bool empty() const noexcept {
    return cheap_.empty() && heavy_.empty();
  }
  [[nodiscard]] std::size_t size() const noexcept {
    return cheap_.size() + heavy_.size();
  }

 private:
  template <typename Picks>
  std::vector<SampleTask> take_if(const Picks& picks);

  std::vector<SampleTask> cheap_;
  std::map<std::uint64_t, SampleTask> heavy_;  ///< decodes too; by arrival
  std::uint64_t arrivals_ = 0;
};

}  // namespace troupe::actors
