#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/core/boundary.h"
#include "kernels/core/tensor.h"
#include "samplers/parallel/method.h"
#include "samplers/solver.h"

namespace troupe::samplers {

/// The values of one run of a sample that one process holds, by slot. All its
/// workers see the same table.
/// Thread: any.
class SlotTable {
 public:
  using Value = std::variant<SolverState, Tensor, Boundary>;

  SlotTable() = default;
  /// `initial` makes the value of kInitialSlot when somebody first asks for it.
  explicit SlotTable(std::function<Value()> initial)
      : initial_(std::move(initial)) {}

  /// Values written late into an erased slot are let go: they come from a task
  /// that ran twice.
  void put(Slot slot, Value value);
  /// Errors: Errc::internal when the slot is empty.
  [[nodiscard]] Value get(Slot slot) const;
  [[nodiscard]] std::optional<Value> find(Slot slot) const;
  void erase(std::span<const Slot> slots);
  /// Values that it holds.
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::function<Value()> initial_;
  mutable std::map<Slot, Value> values_;  ///< find makes the initial one
  std::vector<bool> erased_;              ///< by slot
};

}  // namespace troupe::samplers
