#pragma once

#include <cstdint>

#include "kernels/core/flat_table.h"
#include "samplers/parallel/method_row.h"

namespace troupe::actors {

/// Bytes of one value of each kind. All 0: not known.
struct ValueSizes {
  std::uint64_t state = 0;     ///< latents, and what the solver remembers
  std::uint64_t output = 0;    ///< of the network
  std::uint64_t boundary = 0;  ///< between two segments: the largest
  std::uint64_t pixels = 0;    ///< of the decoded sample; 0: it is not decoded

  friend bool operator==(const ValueSizes&, const ValueSizes&) = default;
};

/// Bytes of so many values, and of the sample's pixels.
[[nodiscard]] std::uint64_t bytes_of(const samplers::LiveValues& values,
                                     const ValueSizes& sizes);

/// How many samples' values the processes of a job have room for, and how many
/// use it. A process that is not listed has room for all.
/// Cost: logarithmic in processes. Thread: one.
class ValueRoom {
 public:
  /// The process keeps `budget` bytes for values, of which each sample may take
  /// `sample_bytes`. 0, each: no limit. What is taken stays so.
  void set(int process, std::uint64_t budget, std::uint64_t sample_bytes);

  /// One more sample fits.
  [[nodiscard]] bool fits(int process) const;
  /// One fits if there are no others.
  [[nodiscard]] bool could_fit(int process) const;
  /// More is taken than there is.
  [[nodiscard]] bool is_over(int process) const;
  /// May take more than there is: then nothing fits until that is given back.
  void take(int process);
  void give_back(int process);

 private:
  struct Room {
    std::uint64_t most = 0;  ///< samples
    std::uint64_t taken = 0;
  };
  FlatTable<int, Room> rooms_;
};

}  // namespace troupe::actors
