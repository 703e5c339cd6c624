#pragma once

#include <cstddef>

namespace troupe::emulator {

/// A block's shared memory, between pages that nobody can touch.
class SharedMemory {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{48} << 10U;

  SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// `bytes` bytes aligned to 16, filled with NaN bytes, for the next block.
  [[nodiscard]] std::byte* fresh(std::size_t bytes);
  /// Reports writes behind the arrays.
  void check() const;

 private:
  std::byte* end_;
  std::size_t bytes_ = 0;
};

}  // namespace troupe::emulator
