#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "actors/grant.h"
#include "samplers/parallel/packer.h"

namespace troupe::actors {

/// A task that waits for a worker or runs on one.
struct Pending {
  SampleTask work;
  int attempts = 0;  ///< times it was lost with its worker
};

/// Tasks that wait, by the worker they belong to, or for any worker of an
/// execution class; a packer in front of each joins them into forward passes.
/// They forget which run of their sample they belong to: who starts a sample
/// anew erases it here.
/// Thread: one.
class WorkQueues {
 public:
  WorkQueues(int num_workers, int num_classes);

  void push(int worker, SampleTask task);
  /// A task that shall run in a grant of its own: it was lost, or one of its
  /// group is at fault.
  void push_alone(int worker, Pending task);
  void push_anywhere(int execution_class, SampleTask task);
  /// The next group for `worker`: its own tasks, at most `max_rows` of a
  /// forward pass; else at most `share` that anyone of its class may run; else
  /// nothing.
  [[nodiscard]] std::vector<Pending> take(int worker, int execution_class,
                                          int max_rows, int share);
  [[nodiscard]] std::size_t num_anywhere(int execution_class) const {
    return anywhere_[static_cast<std::size_t>(execution_class)].size();
  }
  /// Takes every task of `worker`.
  [[nodiscard]] std::vector<Pending> take_all(int worker);
  /// Drops the tasks of a sample.
  void erase_sample(std::uint64_t sample_index);

 private:
  struct Queue {
    samplers::Packer packer;
    std::deque<Pending> alone;
  };
  std::vector<Queue> queues_;
  std::vector<samplers::Packer> anywhere_;  // by class
};

}  // namespace troupe::actors
