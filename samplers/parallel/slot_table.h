#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "kernels/core/boundary.h"
#include "kernels/core/tensor.h"
#include "samplers/parallel/method.h"
#include "samplers/solver.h"

namespace troupe::samplers {

/// The values behind one sample's slots. In one process every worker sees the
/// same table: a slot number is the in-process handle.
/// Thread: any.
class SlotTable {
 public:
  using Value = std::variant<SolverState, Tensor, Boundary>;

  /// Values written late into an erased slot are let go: they come from a task
  /// that ran twice.
  void put(Slot slot, Value value);
  /// Errors: Errc::internal when the slot is empty.
  [[nodiscard]] Value get(Slot slot) const;
  [[nodiscard]] std::optional<Value> find(Slot slot) const;
  void erase(std::span<const Slot> slots);
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<Slot, Value> values_;
  std::vector<bool> erased_;  ///< by slot
};

}  // namespace troupe::samplers
