#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/core/clock.h"

namespace troupe::actors {

/// Events in the order of their virtual time. Those of one instant keep the
/// order in which they were added. Thread: one.
template <typename Event>
class EventQueue {
 public:
  /// Errors: none. A time that has passed counts as now.
  void add(TimePoint when, Event event) {
    entries_.push_back({std::max(when, now_), next_++, std::move(event)});
    std::ranges::push_heap(entries_, later);
  }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] TimePoint now() const noexcept { return now_; }
  /// When the next event happens; there must be one.
  [[nodiscard]] TimePoint next() const { return entries_.front().when; }
  /// Calls `look` with everything that is still to happen, in no order.
  template <typename Look>
  void each(const Look& look) const {
    for (const Entry& entry : entries_) {
      look(entry.event);
    }
  }
  /// Takes away what is to happen where `is_void` says so.
  template <typename IsVoid>
  void erase_if(const IsVoid& is_void) {
    std::erase_if(entries_,
                  [&](const Entry& entry) { return is_void(entry.event); });
    std::ranges::make_heap(entries_, later);
  }
  /// Moves the time to the next event and takes it; there must be one.
  [[nodiscard]] Event take() {
    std::ranges::pop_heap(entries_, later);
    Entry entry = std::move(entries_.back());
    entries_.pop_back();
    now_ = entry.when;
    return std::move(entry.event);
  }

 private:
  struct Entry {
    TimePoint when;
    std::uint64_t number = 0;
    Event event;
  };
  static bool later(const Entry& a, const Entry& b) {
    return std::pair(a.when, a.number) > std::pair(b.when, b.number);
  }

  std::vector<Entry> entries_;  // a heap
  std::uint64_t next_ = 0;
  TimePoint now_{};
};

}  // namespace troupe::actors
