#include "actors/directory.h"

#include <algorithm>

namespace troupe::actors {

using samplers::Slot;

void RunDirectory::expect(Slot slot, int process) {
  InlineVector<Copy, 1>& copies = copies_[slot];
  if (std::ranges::find(copies, process, &Copy::process) == copies.end()) {
    copies.push_back({.process = process, .memory = {}});
    processes_.insert(process);
  }
}

void RunDirectory::expect_made(Slot slot, int process) {
  expect(slot, process);
  for (Copy& copy : copies_[slot]) {
    copy.makes_it = copy.process == process;
  }
}

void RunDirectory::add(Slot slot, int process, const Device& memory,
                       std::uint64_t when) {
  auto* const copies = copies_.find(slot);
  if (copies == nullptr) {
    return;
  }
  const auto copy = std::ranges::find(*copies, process, &Copy::process);
  if (copy != copies->end()) {
    copy->since = copy->is_there ? copy->since : when;
    copy->is_there = true;
    copy->memory = memory;
  }
}

void RunDirectory::remove(Slot slot, int process) {
  if (auto* const copies = copies_.find(slot)) {
    for (Copy& copy : *copies) {
      copy.is_there = copy.is_there && copy.process != process;
    }
  }
}

void RunDirectory::lose(int process) {
  for (auto&& [slot, copies] : copies_) {
    const auto is_its = [process](const Copy& copy) {
      return copy.process == process;
    };
    copies.erase(std::remove_if(copies.begin(), copies.end(), is_its),
                 copies.end());
  }
  processes_.erase(process);
}

void RunDirectory::lose(int process, const Device& memory) {
  for (auto&& [slot, copies] : copies_) {
    for (Copy& copy : copies) {
      copy.is_there =
          copy.is_there && (copy.process != process || copy.memory != memory);
    }
  }
}

std::optional<int> RunDirectory::holder(Slot slot, int near) const {
  std::optional<int> any;
  if (const auto* const copies = copies_.find(slot)) {
    for (const Copy& copy : *copies) {
      if (copy.is_there && (!any || copy.process == near)) {
        any = copy.process;
      }
    }
  }
  return any;
}

std::optional<int> RunDirectory::other_holder(Slot slot, int besides) const {
  if (const auto* const copies = copies_.find(slot)) {
    for (const Copy& copy : *copies) {
      if (copy.is_there && copy.process != besides) {
        return copy.process;
      }
    }
  }
  return std::nullopt;
}

bool RunDirectory::is_only_at(Slot slot, int process) const {
  return holder(slot, process) == process && !other_holder(slot, process);
}

std::optional<std::uint64_t> RunDirectory::since(Slot slot) const {
  std::optional<std::uint64_t> first;
  if (const auto* const copies = copies_.find(slot)) {
    for (const Copy& copy : *copies) {
      if (copy.is_there) {
        first = std::min(first.value_or(copy.since), copy.since);
      }
    }
  }
  return first;
}

std::optional<int> RunDirectory::maker(Slot slot) const {
  if (const auto* const copies = copies_.find(slot)) {
    const auto* const copy = std::ranges::find(*copies, true, &Copy::makes_it);
    if (copy != copies->end()) {
      return copy->process;
    }
  }
  return std::nullopt;
}

InlineVector<int, 4> RunDirectory::free(Slot slot) {
  InlineVector<int, 4> holders;
  if (const auto copies = copies_.take(slot)) {
    for (const Copy& copy : *copies) {
      holders.push_back(copy.process);
    }
  }
  return holders;
}

}  // namespace troupe::actors
