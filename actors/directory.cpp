#include "actors/directory.h"

#include <algorithm>

namespace troupe::actors {

using samplers::Slot;

void RunDirectory::expect(Slot slot, int process) {
  std::vector<Copy>& copies = copies_[slot];
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
  const auto found = copies_.find(slot);
  if (found == copies_.end()) {
    return;
  }
  const auto copy = std::ranges::find(found->second, process, &Copy::process);
  if (copy != found->second.end()) {
    copy->since = copy->is_there ? copy->since : when;
    copy->is_there = true;
    copy->memory = memory;
  }
}

void RunDirectory::remove(Slot slot, int process) {
  const auto found = copies_.find(slot);
  if (found != copies_.end()) {
    for (Copy& copy : found->second) {
      copy.is_there = copy.is_there && copy.process != process;
    }
  }
}

void RunDirectory::lose(int process) {
  for (auto& [slot, copies] : copies_) {
    std::erase_if(copies,
                  [&](const Copy& copy) { return copy.process == process; });
  }
  processes_.erase(process);
}

void RunDirectory::lose(int process, const Device& memory) {
  for (auto& [slot, copies] : copies_) {
    for (Copy& copy : copies) {
      copy.is_there =
          copy.is_there && (copy.process != process || copy.memory != memory);
    }
  }
}

std::optional<int> RunDirectory::holder(Slot slot, int near) const {
  std::optional<int> any;
  const auto found = copies_.find(slot);
  if (found != copies_.end()) {
    for (const Copy& copy : found->second) {
      if (copy.is_there && (!any || copy.process == near)) {
        any = copy.process;
      }
    }
  }
  return any;
}

bool RunDirectory::is_only_at(Slot slot, int process) const {
  const auto found = copies_.find(slot);
  bool is_there = false;
  if (found != copies_.end()) {
    for (const Copy& copy : found->second) {
      if (copy.is_there && copy.process != process) {
        return false;
      }
      is_there = is_there || copy.is_there;
    }
  }
  return is_there;
}

std::optional<std::uint64_t> RunDirectory::since(Slot slot) const {
  std::optional<std::uint64_t> first;
  const auto found = copies_.find(slot);
  if (found != copies_.end()) {
    for (const Copy& copy : found->second) {
      if (copy.is_there) {
        first = std::min(first.value_or(copy.since), copy.since);
      }
    }
  }
  return first;
}

std::optional<int> RunDirectory::maker(Slot slot) const {
  const auto found = copies_.find(slot);
  if (found != copies_.end()) {
    const auto copy = std::ranges::find(found->second, true, &Copy::makes_it);
    if (copy != found->second.end()) {
      return copy->process;
    }
  }
  return std::nullopt;
}

std::vector<int> RunDirectory::free(Slot slot) {
  std::vector<int> holders;
  const auto found = copies_.find(slot);
  if (found != copies_.end()) {
    for (const Copy& copy : found->second) {
      holders.push_back(copy.process);
    }
    copies_.erase(found);
  }
  return holders;
}

}  // namespace troupe::actors
