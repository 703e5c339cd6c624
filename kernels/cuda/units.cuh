#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/numbers.cuh"

// A unit is neighbouring elements that one instruction moves. Where an
// operation has elements of two types, their units have the same number of
// elements, and the unit of the wider type has 16 bytes.

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

/// Elements of a unit for these types: those of the widest in 16 bytes.
template <typename... T>
inline constexpr int kTogether = [] {
  std::size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return static_cast<int>(16 / widest);
}();

/// Whether `pointer` is aligned to a unit of N elements.
template <int N, typename T>
[[nodiscard]] inline bool is_aligned(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (sizeof(T) * N) == 0;
}

/// `from` must be aligned to the unit; otherwise the program stops with an
/// error, on a GPU and on the host.
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

/// `to` must be aligned to the unit.
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

/// As `store`, but always by one instruction. (nvcc may split a plain store
/// behind a branch.)
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

/// Bytes<N>: N bytes of elements of any type; N is 16, 4, 2 or 1.
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

/// Hands kUnits of `count` units to store(load(index), index): a thread loads
/// all of its units before it stores the first.
template <int N, int kThreads, int kUnits, typename Lane, typename Load,
          typename Store>
TROUPE_DEVICE void move_units(Lane& lane, std::int64_t count, const Load& load,
                              const Store& store) {
  const std::int64_t first = lane.block() * (kThreads * kUnits) + lane.thread();
  Bytes<N> units[kUnits];
  TROUPE_UNROLL
  for (int i = 0; i < kUnits; ++i) {
    if (first + i * kThreads < count) {
      units[i] = load(first + i * kThreads);
    }
  }
  TROUPE_UNROLL
  for (int i = 0; i < kUnits; ++i) {
    if (first + i * kThreads < count) {
      store(units[i], first + i * kThreads);
    }
  }
}

/// Calls fn(std::integral_constant<int, N>) with the largest N of 16, 4, 2 and
/// 1 that divides all of certain addresses and distances in bytes. `steps` is
/// their bitwise or.
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
