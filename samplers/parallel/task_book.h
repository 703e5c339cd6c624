#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/core/flat_table.h"
#include "samplers/parallel/bytes.h"
#include "samplers/parallel/method.h"

namespace troupe::samplers {

/// The tasks of one sample that are not finished, and the slots that they still
/// need: for methods whose tasks follow from results. Hands each task out once,
/// drops late, duplicate and superseded results, and tells which slots have
/// died.
class TaskBook {
 public:
  TaskBook() { slots_[kInitialSlot].is_made = true; }

  /// Gives a task that is to be added one more output.
  Slot add_output(Task& task) {
    task.outputs.push_back(next_slot_++);
    return task.outputs.back();
  }
  /// Opens a task and returns its new id. Its inputs are made, or are outputs
  /// of tasks that were added before.
  std::uint64_t add(Task task);
  /// Open tasks that were not handed out yet: first tasks with complete inputs,
  /// then other tasks while fewer than `max_open` are out; each group in the
  /// order of addition.
  [[nodiscard]] std::vector<Task> take(int max_open);
  /// Closes the task of a result; nothing when the result is to be dropped.
  [[nodiscard]] std::optional<Task> finish(const TaskResult& result);
  /// Drops slots that are made, and that neither an open task reads nor the
  /// caller keeps, and returns them.
  Slots bury(std::vector<Slot> kept);

  [[nodiscard]] bool is_open(std::uint64_t id) const {
    return open_.contains(id);
  }
  [[nodiscard]] bool has_open() const { return !open_.empty(); }
  /// There is or was a task of that id.
  [[nodiscard]] bool has_given(std::uint64_t id) const {
    return id != 0 && id < next_id_;
  }
  /// All of them are made or to be made, and not dead.
  [[nodiscard]] bool has_slots(const std::vector<Slot>& slots) const {
    return std::ranges::all_of(
        slots, [this](Slot slot) { return slots_.contains(slot); });
  }
  /// The task that writes the slot is open.
  [[nodiscard]] bool is_to_come(Slot slot) const {
    const SlotUse* const found = slots_.find(slot);
    return found != nullptr && !found->is_made;
  }
  /// All such slots.
  [[nodiscard]] std::vector<Slot> live_slots() const;

  void transfer(ByteWriter& out) const;
  /// All open tasks come back as not handed out, under a higher version, so
  /// that results from before are dropped.
  void transfer(ByteReader& in);

 private:
  struct OpenTask {
    Task task;
    bool is_out = false;
  };
  struct SlotUse {
    int readers = 0;  ///< open tasks that read it
    bool is_made = false;
  };

  void open(Task task);

  FlatTable<std::uint64_t, OpenTask> open_;
  std::vector<std::uint64_t> waiting_;  ///< open, not out, in order
  int num_out_ = 0;
  FlatTable<Slot, SlotUse> slots_;
  std::uint64_t next_id_ = 1;
  Slot next_slot_ = kInitialSlot + 1;
};

/// A method whose tasks stand in a book, and whose points become final in their
/// order.
class BookedMethod : public Method {
 public:
  std::optional<Slots> apply(const TaskResult& result) final;
  [[nodiscard]] bool done() const final { return begin_ == num_calls_; }
  [[nodiscard]] Progress progress() const final;
  [[nodiscard]] int accepted() const override { return begin_; }
  [[nodiscard]] Slot result_slot() const override { return result_; }
  [[nodiscard]] std::vector<Slot> live_slots() const final {
    return book_.live_slots();
  }

 protected:
  explicit BookedMethod(int num_calls) : num_calls_(num_calls) {}

  /// The task is done: issues tasks that have become possible.
  virtual void advance(const Task& done,
                       const std::vector<double>& scalars) = 0;
  /// The slots that are the result, or that tasks still to be issued may read.
  [[nodiscard]] virtual std::vector<Slot> kept_slots() const = 0;
  /// Issued evaluations that may not have run yet, as far as results tell.
  [[nodiscard]] virtual std::int64_t num_missing() const = 0;

  TaskBook book_;
  int num_calls_;
  int begin_ = 0;                 ///< points up to here are final
  Slot result_ = kInitialSlot;    ///< the value of point begin_
  std::int64_t evaluations_ = 0;  ///< issued
  std::int64_t num_rounds_ = 0;
  std::int64_t reused_ = 0;  ///< Progress::reused
};

}  // namespace troupe::samplers
