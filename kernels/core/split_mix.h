#pragma once

#include <cstdint>

namespace troupe {

/// The increment of the state of SplitMix64 before each output.
inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15U;

/// The output function of SplitMix64 (Steele, Lea and Flood 2014, OOPSLA). It
/// is a bijection: other inputs give other outputs. Thread: any.
[[nodiscard]] constexpr std::uint64_t split_mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace troupe
