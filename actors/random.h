#pragma once

#include <cstdint>

#include "kernels/core/clock.h"
#include "kernels/core/split_mix.h"

namespace troupe::actors {

/// Random numbers of one seed, the same on every machine. std's distributions
/// are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(split_mix(seed)) {}

  std::uint64_t bits() { return split_mix(state_ += kSplitMixStep); }
  /// In [0, end); end ≥ 1.
  std::uint64_t below(std::uint64_t end) { return bits() % end; }
  /// In [first, last].
  int between(int first, int last) {
    return first + static_cast<int>(
                       below(static_cast<std::uint64_t>(last - first) + 1));
  }
  /// In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }
  /// In [first, last).
  Duration between(Duration first, Duration last) {
    return first + Duration(static_cast<Duration::rep>(
                       unit() * static_cast<double>((last - first).count())));
  }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::actors
