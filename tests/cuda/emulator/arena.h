#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace troupe::emulator {

/// Device memory: addresses the host cannot touch, except while queued work
/// runs. An allocation starts at a multiple of 256 bytes and ends, rounded up
/// to 256, at a page that nobody can touch; the bytes around it are known and
/// checked. Addresses are not used again before the arena has been walked
/// once, so what touches freed memory faults.
class Arena {
 public:
  struct Allocation {
    int device = 0;
    std::size_t bytes = 0;  ///< as asked
    std::byte* pages = nullptr;
    std::size_t page_bytes = 0;
    bool is_live = false;   ///< the queue has reached its allocation
    bool is_freed = false;  ///< its release is queued
  };

  /// Addresses for `bytes` bytes; memory comes with `activate`.
  [[nodiscard]] std::byte* promise(int device, std::size_t bytes);
  /// Gives it memory, filled with NaN bytes.
  void activate(std::byte* start);
  /// Takes memory and addresses away, and checks what lay around.
  void remove(std::byte* start);
  /// Takes everything of a device away, unchecked.
  void remove_device(int device);

  /// The allocation that holds `address`, or null.
  [[nodiscard]] Allocation* find(const void* address);
  [[nodiscard]] Allocation* find_start(const void* start);
  /// Whether all of [address, address + bytes) is one allocation that is not
  /// released yet.
  [[nodiscard]] bool holds(const void* address, std::size_t bytes);
  /// Whether an address is one of a device, allocated or not.
  [[nodiscard]] bool is_inside(const void* address) const;
  [[nodiscard]] std::size_t bytes_in_use(int device) const;

  /// Lets the process touch the devices of `mask`, and no others. An allocation
  /// opens when it is first touched (`open_touched`).
  void open(std::uint64_t mask);
  /// Opens the allocation whose pages hold `address`, if a device of `open`
  /// holds it. For the handler of a memory fault: the instruction that failed
  /// is one of a kernel or a copy, so nothing here was interrupted.
  [[nodiscard]] bool open_touched(const void* address);
  /// Reports what wrote around an allocation that is open.
  void check_surroundings();

 private:
  using Allocations = std::map<std::byte*, Allocation>;
  void check(std::byte* start, const Allocation& allocation, bool whole);
  void protect(std::byte* start, Allocation& allocation, bool is_open);
  void release(Allocations::iterator allocation);

  std::byte* base_ = nullptr;
  std::size_t next_ = 0;
  std::uint64_t opened_ = 0;
  Allocations allocations_;
  /// The starts of those that are open.
  std::set<std::byte*> open_;
};

}  // namespace troupe::emulator
