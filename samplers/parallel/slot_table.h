#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/core/boundary.h"
#include "kernels/core/flat_table.h"
#include "kernels/core/tensor.h"
#include "samplers/parallel/method.h"
#include "samplers/solver.h"

namespace troupe::samplers {

/// The values of one run of a sample that one process holds, by slot. All
/// workers of the process see one table.
/// Thread: any.
class SlotTable {
 public:
  using Value = std::variant<SolverState, Tensor, Boundary>;
  using Taker = std::function<void(bool is_there)>;

  SlotTable() = default;
  /// `initial` makes the value of kInitialSlot when somebody first asks for it.
  explicit SlotTable(std::function<Value()> initial)
      : initial_(std::move(initial)) {}

  /// Values written late into an erased slot are let go: they come from a task
  /// that ran twice.
  void put(Slot slot, Value value);
  /// `then` is called once, with whether the value is there: at once if it is
  /// or was erased, else by whoever puts or erases it, or gives the table up.
  /// It must not throw.
  void await(Slot slot, Taker then);
  /// No value will come any more.
  void give_up();
  /// Errors: Errc::internal when the slot is empty.
  [[nodiscard]] Value get(Slot slot) const;
  [[nodiscard]] std::optional<Value> find(Slot slot) const;
  /// Whether `find` would find it.
  [[nodiscard]] bool has(Slot slot) const;
  void erase(std::span<const Slot> slots);
  /// Values that it holds.
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::function<Value()> initial_;
  mutable FlatTable<Slot, Value> values_;  ///< find makes the initial one
  Slot first_not_erased_ = 0;              ///< slots mostly die in their order
  std::unordered_set<Slot> erased_;        ///< later ones
  std::map<Slot, std::vector<Taker>> awaited_;
  bool is_given_up_ = false;

  // With the lock.
  [[nodiscard]] bool has_or_makes(Slot slot) const;
  [[nodiscard]] std::vector<Taker> take_awaiting(Slot slot);
  void note_erased(Slot slot);
  [[nodiscard]] bool is_erased(Slot slot) const {
    return slot < first_not_erased_ || erased_.contains(slot);
  }
};

}  // namespace troupe::samplers
