#include "samplers/parallel/slot_table.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::samplers {

void SlotTable::put(Slot slot, Value value) {
  std::vector<Taker> takers;  // called without the lock
  {
    const std::lock_guard lock(mutex_);
    if (is_erased(slot)) {
      return;
    }
    values_[slot] = std::move(value);
    takers = take_awaiting(slot);
  }
  for (const Taker& taker : takers) {
    taker(true);
  }
}

void SlotTable::await(Slot slot, Taker then) {
  bool is_there = false;
  {
    const std::lock_guard lock(mutex_);
    is_there = has_or_makes(slot);
    if (!is_there && !is_erased(slot) && !is_given_up_) {
      awaited_[slot].push_back(std::move(then));
      return;
    }
  }
  then(is_there);
}

void SlotTable::give_up() {
  decltype(awaited_) awaited;
  {
    const std::lock_guard lock(mutex_);
    is_given_up_ = true;
    awaited = std::exchange(awaited_, {});
  }
  for (const auto& [slot, takers] : awaited) {
    for (const Taker& taker : takers) {
      taker(false);
    }
  }
}

std::vector<SlotTable::Taker> SlotTable::take_awaiting(Slot slot) {
  auto awaiting = awaited_.extract(slot);
  return awaiting ? std::move(awaiting.mapped()) : std::vector<Taker>();
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
  if (const Value* const held = values_.find(slot)) {
    return *held;
  }
  if (!has_or_makes(slot)) {
    return std::nullopt;
  }
  return values_[slot] = initial_();
}

bool SlotTable::has(Slot slot) const {
  const std::lock_guard lock(mutex_);
  return has_or_makes(slot);
}

bool SlotTable::has_or_makes(Slot slot) const {
  return values_.contains(slot) ||
         (slot == kInitialSlot && initial_ && !is_erased(slot));
}

void SlotTable::erase(std::span<const Slot> slots) {
  std::vector<Taker> takers;  // called without the lock
  {
    const std::lock_guard lock(mutex_);
    for (const Slot slot : slots) {
      values_.erase(slot);
      note_erased(slot);
      std::ranges::move(take_awaiting(slot), std::back_inserter(takers));
    }
  }
  for (const Taker& taker : takers) {
    taker(false);
  }
}

void SlotTable::note_erased(Slot slot) {
  if (slot > first_not_erased_) {
    erased_.insert(slot);
  } else if (slot == first_not_erased_) {
    do {
      ++first_not_erased_;
    } while (erased_.erase(first_not_erased_) > 0);
  }
}

std::size_t SlotTable::size() const {
  const std::lock_guard lock(mutex_);
  return values_.size();
}

}  // namespace troupe::samplers
