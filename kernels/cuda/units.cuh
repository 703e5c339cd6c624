#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/numbers.cuh"

// Neighbouring elements that one instruction moves (a unit), of types of any
// width: where two types meet, both units hold as many elements, and the wider
// one fills 16 bytes.

#if defined(__CUDACC__)
#define TROUPE_UNROLL _Pragma("unroll")
#else
#define TROUPE_UNROLL
#endif

namespace troupe::kernels::cuda {

/// N elements in at most 16 bytes; N is a power of two.
template <typename T, int N>
struct alignas(sizeof(T) * N) Unit {
  static_assert(sizeof(T) * N <= 16);
  T values[N];
};

/// Elements of the wider type in 16 bytes.
template <typename... T>
inline constexpr int kTogether = [] {
  std::size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return static_cast<int>(16 / widest);
}();

/// Whether units of N elements can be moved from or to `pointer` on.
template <int N, typename T>
[[nodiscard]] inline bool is_aligned(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (sizeof(T) * N) == 0;
}

/// `from` is aligned to the unit: a GPU stops with an error where it is not,
/// and so does the host.
template <int N, typename T>
TROUPE_DEVICE Unit<T, N> load(const T* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const Unit<T, N>*>(from);
#else
  if (!is_aligned<N>(from)) {
    __builtin_trap();
  }
  Unit<T, N> unit;
  std::memcpy(static_cast<void*>(&unit), from, sizeof(unit));
  return unit;
#endif
}

/// `to` is aligned to the unit.
template <int N, typename T>
TROUPE_DEVICE void store(const Unit<T, N>& unit, T* to) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<Unit<T, N>*>(to) = unit;
#else
  if (!is_aligned<N>(to)) {
    __builtin_trap();
  }
  std::memcpy(static_cast<void*>(to), &unit, sizeof(unit));
#endif
}

/// The unit by one instruction, whatever the compiler makes of what is around:
/// it splits plain stores where paths of the program join before them.
template <int N, typename T>
TROUPE_DEVICE void store_whole(const Unit<T, N>& unit, T* to) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(unit) == 16) {
    uint4 words;
    memcpy(&words, &unit, sizeof(unit));
    __stcg(reinterpret_cast<uint4*>(to), words);
    return;
  }
  if constexpr (sizeof(unit) == 8) {
    uint2 words;
    memcpy(&words, &unit, sizeof(unit));
    __stcg(reinterpret_cast<uint2*>(to), words);
    return;
  }
#endif
  store<N>(unit, to);
}

/// N bytes of any elements: 16, 4, 2 or 1.
template <int N>
using Word =
    std::conditional_t<N >= 4, std::uint32_t,
                       std::conditional_t<N == 2, std::uint16_t, std::uint8_t>>;
template <int N>
using Bytes = Unit<Word<N>, (N + 3) / 4>;

/// `from` is aligned to N.
template <int N>
TROUPE_DEVICE Bytes<N> load_bytes(const std::uint8_t* from) {
  return load<(N + 3) / 4>(reinterpret_cast<const Word<N>*>(from));
}
/// `to` is aligned to N.
template <int N>
TROUPE_DEVICE void store_bytes(const Bytes<N>& bytes, std::uint8_t* to) {
  store<(N + 3) / 4>(bytes, reinterpret_cast<Word<N>*>(to));
}

/// Calls fn(std::integral_constant<int, bytes>) with the largest unit of bytes
/// (16, 4, 2 or 1) that fits. `steps` are the addresses and distances in bytes
/// that must be multiples of it, joined by bitwise or.
template <typename Fn>
void with_unit_bytes(std::uintptr_t steps, const Fn& fn) {
  if (steps % 16 == 0) {
    fn(std::integral_constant<int, 16>{});
  } else if (steps % 4 == 0) {
    fn(std::integral_constant<int, 4>{});
  } else if (steps % 2 == 0) {
    fn(std::integral_constant<int, 2>{});
  } else {
    fn(std::integral_constant<int, 1>{});
  }
}

}  // namespace troupe::kernels::cuda
