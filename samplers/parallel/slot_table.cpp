#include "samplers/parallel/slot_table.h"

#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::samplers {

void SlotTable::put(Slot slot, Value value) {
  const std::lock_guard lock(mutex_);
  if (slot >= erased_.size() || !erased_[slot]) {
    values_.insert_or_assign(slot, std::move(value));
  }
}

SlotTable::Value SlotTable::get(Slot slot) const {
  if (auto value = find(slot)) {
    return *std::move(value);
  }
  throw Error(Errc::internal, "slots",
              "slot " + std::to_string(slot) + " is empty");
}

std::optional<SlotTable::Value> SlotTable::find(Slot slot) const {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(slot);
  if (found != values_.end()) {
    return found->second;
  }
  const bool is_erased = slot < erased_.size() && erased_[slot];
  if (slot != kInitialSlot || !initial_ || is_erased) {
    return std::nullopt;
  }
  return values_.emplace(slot, initial_()).first->second;
}

void SlotTable::erase(std::span<const Slot> slots) {
  const std::lock_guard lock(mutex_);
  for (const Slot slot : slots) {
    values_.erase(slot);
    if (slot >= erased_.size()) {
      erased_.resize(slot + std::size_t{1}, false);
    }
    erased_[slot] = true;
  }
}

std::size_t SlotTable::size() const {
  const std::lock_guard lock(mutex_);
  return values_.size();
}

}  // namespace troupe::samplers
