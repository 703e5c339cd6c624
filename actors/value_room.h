#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "kernels/core/device.h"
#include "kernels/core/flat_table.h"
#include "samplers/parallel/method_row.h"

namespace troupe::actors {

/// Bytes of one value of each kind. All 0: not known.
struct ValueSizes {
  std::uint64_t state = 0;     ///< latents, and what the solver remembers
  std::uint64_t output = 0;    ///< of the network
  std::uint64_t boundary = 0;  ///< between two segments: the largest
  std::uint64_t skips = 0;     ///< that a segment keeps: the most
  std::uint64_t pixels = 0;    ///< of the decoded sample; 0: it is not decoded
  std::uint64_t cache = 0;     ///< that an evaluation leaves for later ones

  friend bool operator==(const ValueSizes&, const ValueSizes&) = default;
};

/// Bytes of so many values, and of the sample's pixels.
[[nodiscard]] std::uint64_t bytes_of(const samplers::LiveValues& values,
                                     const ValueSizes& sizes);

[[nodiscard]] std::uint64_t bytes_of(const ValueSizes& sizes,
                                     samplers::ValueKind kind);

/// Where values lie: in a process's own memory, or in that of a GPU of its own.
struct ValueMemory {
  int process = 0;
  int gpu = -1;  ///< its number in the process; −1: the host's memory

  friend auto operator<=>(const ValueMemory&, const ValueMemory&) = default;
};

/// Where a worker's values lie.
[[nodiscard]] inline ValueMemory memory_of(int process, const Device& device) {
  return {process, device.kind == DeviceKind::cpu ? -1 : device.index};
}

/// How often a sample's values lie in a memory, at most, where cuts are taken:
/// what is being cut is not freed until the cut is over. The coordinator's
/// process keeps the values of the last cut beside that.
inline constexpr std::uint64_t kCopiesWithCuts = 2;
inline constexpr std::uint64_t kCopiesWithCutsAtHome = 3;

/// "process 1", "cuda:0 of process 1".
[[nodiscard]] std::string to_string(const ValueMemory& memory);

/// How many samples' values the memories of a job have room for, and how many
/// use it. A memory that is not listed has room for all.
/// Cost: logarithmic in memories. Thread: one.
class ValueRoom {
 public:
  /// The memory keeps `budget` bytes for values, of which each sample may take
  /// `sample_bytes`. 0, each: no limit. What is taken stays so.
  void set(ValueMemory memory, std::uint64_t budget,
           std::uint64_t sample_bytes);

  /// One more sample fits.
  [[nodiscard]] bool fits(ValueMemory memory) const;
  /// A sample fits if the memory holds no other.
  [[nodiscard]] bool could_fit(ValueMemory memory) const;
  /// More room is taken than there is.
  [[nodiscard]] bool is_over(ValueMemory memory) const;
  /// May take more room than there is: then no sample fits until room is given
  /// back.
  void take(ValueMemory memory);
  void give_back(ValueMemory memory);

 private:
  struct Room {
    std::uint64_t most = 0;  ///< samples
    std::uint64_t taken = 0;
  };
  FlatTable<ValueMemory, Room> rooms_;
};

}  // namespace troupe::actors
