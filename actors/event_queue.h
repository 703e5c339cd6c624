#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/core/clock.h"

namespace troupe::actors {

/// Events in the order of their virtual time. Events with equal times keep the
/// order in which they were added. Thread: one.
template <typename Event>
class EventQueue {
 public:
  /// Errors: none. A time that has passed counts as now.
  void add(TimePoint when, Event event) {
    std::size_t place = events_.size();
    if (free_.empty()) {
      events_.push_back(std::move(event));
    } else {
      place = free_.back();
      free_.pop_back();
      events_[place] = std::move(event);
    }
    entries_.push_back({std::max(when, now_), next_++, place});
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
      look(events_[entry.place]);
    }
  }
  /// Removes the events for which `is_void` is true.
  template <typename IsVoid>
  void erase_if(const IsVoid& is_void) {
    std::erase_if(entries_, [&](const Entry& entry) {
      const bool goes = is_void(std::as_const(events_[entry.place]));
      if (goes) {
        (void)take_out(entry.place);
      }
      return goes;
    });
    std::ranges::make_heap(entries_, later);
  }
  /// Moves the time to the next event and takes it; there must be one.
  [[nodiscard]] Event take() {
    std::ranges::pop_heap(entries_, later);
    const Entry entry = entries_.back();
    entries_.pop_back();
    now_ = entry.when;
    return take_out(entry.place);
  }

 private:
  struct Entry {
    TimePoint when;
    std::uint64_t number = 0;
    std::size_t place = 0;  ///< in `events_`
  };
  static bool later(const Entry& a, const Entry& b) {
    return std::pair(a.when, a.number) > std::pair(b.when, b.number);
  }

  Event take_out(std::size_t place) {
    free_.push_back(place);
    return std::move(events_[place]);
  }

  std::vector<Entry> entries_;  // a heap, which moves its entries often
  std::vector<Event> events_;
  std::vector<std::size_t> free_;  // places in `events_`
  std::uint64_t next_ = 0;
  TimePoint now_{};
};

}  // namespace troupe::actors
