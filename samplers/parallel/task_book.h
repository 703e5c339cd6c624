#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "samplers/parallel/bytes.h"
#include "samplers/parallel/method.h"

namespace troupe::samplers {

/// The tasks of one method instance that are not finished: what every method
/// shares. Numbers tasks and slots, hands each task out once, and drops late,
/// duplicate and superseded results.
class TaskBook {
 public:
  [[nodiscard]] Slot new_slot() { return next_slot_++; }
  /// Opens a task. An id of 0 asks for the next free one. The task also frees
  /// what was discarded since the last one.
  void add(Task task);
  /// Says that nobody will read the slot again.
  void discard(Slot slot) { garbage_.push_back(slot); }
  /// Open tasks that were not handed out yet, in the order they were added.
  [[nodiscard]] std::vector<Task> take();
  /// Closes the task of a result; nothing when the result is to be dropped.
  [[nodiscard]] std::optional<Task> finish(const TaskResult& result);
  /// No task is open.
  [[nodiscard]] bool idle() const { return open_.empty(); }

  void save(ByteWriter& out) const;
  /// All open tasks come back as not handed out, under a higher version, so
  /// that results from before are dropped.
  void load(ByteReader& in);

 private:
  std::map<std::uint64_t, Task> open_;
  std::vector<std::uint64_t> ready_;
  std::vector<Slot> garbage_;
  std::uint64_t next_id_ = 1;
  Slot next_slot_ = kInitialSlot + 1;
};

}  // namespace troupe::samplers
