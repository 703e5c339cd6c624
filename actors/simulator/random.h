#pragma once

#include <cstdint>

#include "kernels/core/clock.h"

namespace troupe::actors::simulator {

/// The output function of SplitMix64 (Steele, Lea and Flood 2014, OOPSLA): a
/// bijection in which every input bit changes half of the output bits.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

/// Random numbers of one seed, the same on every machine. std's distributions
/// are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mixed(seed)) {}

  std::uint64_t bits() { return mixed(state_ += 0x9e3779b97f4a7c15U); }
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

}  // namespace troupe::actors::simulator
