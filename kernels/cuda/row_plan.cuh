#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/units.cuh"

// Rows that several threads share: how a row is divided, held in registers and
// summed. All of this depends on the row's width and element type alone, never
// on the number of rows, the grid or the addresses. So a row's bits do too.

namespace troupe::kernels::cuda {

/// Units of a row that one thread can hold.
inline constexpr int kHeldUnits = 3;
/// Warps of a block at most. A reduction over them takes as many floats of
/// shared memory.
inline constexpr int kMaxWarps = 32;
/// Threads of a block at most.
inline constexpr int kRowThreads = kMaxWarps * 32;

/// Rows of `width` elements, cut into units of N elements. Unit u of a row
/// belongs to thread u % threads. A row has a power of two of threads up to a
/// warp (then a block has several rows), or several whole warps (then a block
/// has one row).
struct RowPlan {
  std::uint32_t rows = 0;
  int width = 0;
  int threads = 1;  ///< of one row
  int rows_per_block = 1;
  int place_shift = 0;   ///< thread >> place_shift is the row in the block
  bool can_hold = true;  ///< each thread can keep its units in registers
  bool is_full = false;  ///< a block has one row, each thread kHeldUnits units

  [[nodiscard]] std::int64_t blocks() const {
    return blocks_for(rows, rows_per_block);
  }
  [[nodiscard]] int block_threads() const { return threads * rows_per_block; }
};

/// `unit`: elements of a unit. `per_thread`: units that each thread gets, or
/// more where a block has too few threads.
/// Errors: Errc::unsupported for 2^31 rows, or 2^31 elements in a row.
inline RowPlan plan_rows(std::int64_t rows, std::int64_t width, int unit,
                         int per_thread = kHeldUnits) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31U;
  constexpr std::int64_t kWarp = 32;
  constexpr int kNarrowBlock = 128;
  // Below this a warp's loads would be scattered.
  constexpr std::int64_t kSideBySide = 8;
  require(rows < kLimit && width < kLimit, Errc::unsupported, "cuda",
          "too many rows or columns for one kernel: got " +
              std::to_string(rows) + " rows of " + std::to_string(width));
  const std::int64_t units = (width + unit - 1) / unit;
  const std::int64_t needed = (units + per_thread - 1) / per_thread;
  RowPlan plan;
  plan.rows = static_cast<std::uint32_t>(rows);
  plan.width = static_cast<int>(width);
  if (needed <= kWarp) {
    const auto threads = static_cast<unsigned>(
        std::max({needed, std::min(units, kSideBySide), std::int64_t{1}}));
    plan.place_shift = std::bit_width(threads - 1);
    plan.threads = 1 << plan.place_shift;
    plan.rows_per_block = kNarrowBlock / plan.threads;
  } else {
    plan.place_shift = 31;
    plan.threads = static_cast<int>(
        std::min((needed + kWarp - 1) / kWarp, std::int64_t{kMaxWarps}) *
        kWarp);
  }
  plan.can_hold = units <= std::int64_t{kHeldUnits} * plan.threads;
  plan.is_full = plan.rows_per_block == 1 &&
                 units == std::int64_t{kHeldUnits} * plan.threads;
  return plan;
}

/// How a kernel reads its rows. The bits are the same.
enum class RowAccess : std::uint8_t {
  /// As `held`, but every thread has kHeldUnits units and need not test whether
  /// a unit exists. Then all its loads are in flight together; nvcc 13 would
  /// put
  /// waits between loads that are each behind a test.
  full,
  /// By units, read once and kept in registers.
  held,
  /// By units, read again in every pass: rows too wide for the registers.
  by_unit,
  /// Element by element, read again in every pass: rows or widths that are not
  /// aligned.
  single,
};

/// Whether a row is read once.
template <RowAccess access>
inline constexpr bool kIsHeld =
    access == RowAccess::full || access == RowAccess::held;

/// Calls fn(std::integral_constant<RowAccess, access>).
template <typename Fn>
void with_access(const RowPlan& plan, bool aligned, const Fn& fn) {
  if (!aligned) {
    fn(std::integral_constant<RowAccess, RowAccess::single>{});
  } else if (!plan.can_hold) {
    fn(std::integral_constant<RowAccess, RowAccess::by_unit>{});
  } else if (!plan.is_full) {
    fn(std::integral_constant<RowAccess, RowAccess::held>{});
  } else {
    fn(std::integral_constant<RowAccess, RowAccess::full>{});
  }
}

/// The part of a row that one thread has. A thread past the last row has no
/// elements, but takes part in the sums.
template <int N, RowAccess access>
struct RowShare {
  static constexpr bool kHeld = kIsHeld<access>;
  static constexpr bool kByUnit = access != RowAccess::single;
  /// Units in registers at once.
  static constexpr int kKept = kHeld ? kHeldUnits : 1;

  template <typename Lane>
  TROUPE_DEVICE RowShare(const RowPlan& plan, Lane& lane)
      : threads(plan.threads) {
    const int place = lane.thread() >> plan.place_shift;
    thread = lane.thread() - place * threads;
    row = static_cast<std::uint32_t>(lane.block()) *
              static_cast<std::uint32_t>(plan.rows_per_block) +
          static_cast<std::uint32_t>(place);
    width = access == RowAccess::full || row < plan.rows ? plan.width : 0;
  }

  /// Calls fn(slot, first, count) for this thread's units: elements
  /// [first, first + count) of the row, kept in `slot`.
  template <typename Fn>
  TROUPE_DEVICE void each(const Fn& fn) const {
    if constexpr (kHeld) {
      TROUPE_UNROLL
      for (int slot = 0; slot < kHeldUnits; ++slot) {
        const int first = (thread + slot * threads) * N;
        if (access == RowAccess::full || first < width) {
          fn(slot, first, N);
        }
      }
    } else {
      for (std::int64_t at = std::int64_t{thread} * N; at < width;
           at += std::int64_t{threads} * N) {
        const int first = static_cast<int>(at);
        fn(0, first, kByUnit || width - first > N ? N : width - first);
      }
    }
  }

  int threads;
  int thread;
  std::uint32_t row;
  int width;  ///< 0 past the last row
};

/// `count` elements of a row, at most N; the rest of the unit is 0. Whole units
/// are aligned. The loads bypass the first-level cache, which is left to what
/// rows share.
template <RowAccess access, int N, typename T>
TROUPE_DEVICE Unit<T, N> load_row(const T* from, int count) {
  Unit<T, N> unit;
  if constexpr (access == RowAccess::single) {
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      unit.values[i] = i < count ? from[i] : T{};
    }
    return unit;
  }
#if defined(__CUDA_ARCH__)
  // Not for rows that a kernel reads again: the loads may be moved.
  if constexpr (kIsHeld<access> && sizeof(unit) == 16) {
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(from));
    memcpy(&unit, &words, sizeof(unit));
    return unit;
  }
  if constexpr (kIsHeld<access> && sizeof(unit) == 8) {
    const uint2 words = __ldcg(reinterpret_cast<const uint2*>(from));
    memcpy(&unit, &words, sizeof(unit));
    return unit;
  }
#endif
  return load<N>(from);
}

template <RowAccess access, int N, typename T>
TROUPE_DEVICE void store_row(const Unit<T, N>& unit, T* to, int count) {
  if constexpr (access == RowAccess::single) {
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      if (i < count) {
        to[i] = unit.values[i];
      }
    }
  } else {
    store_whole<N>(unit, to);
  }
}

template <int N>
struct Floats {
  float values[N];
};

template <int N, typename T>
TROUPE_DEVICE Floats<N> floats(const Unit<T, N>& unit) {
  Floats<N> out;
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i) {
    out.values[i] = to_float(unit.values[i]);
  }
  return out;
}
template <typename T, int N>
TROUPE_DEVICE Unit<T, N> rounded(const Floats<N>& from) {
  Unit<T, N> unit;
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i) {
    unit.values[i] = from_float<T>(from.values[i]);
  }
  return unit;
}

/// 16 bytes that no thread of the kernel writes.
TROUPE_DEVICE Unit<float, 4> load_constant(const float* from) {
#if defined(__CUDA_ARCH__)
  const float4 words = __ldg(reinterpret_cast<const float4*>(from));
  return {{words.x, words.y, words.z, words.w}};
#else
  return load<4>(from);
#endif
}

/// `count` parameters that many rows share, at most N; the rest is 0. No thread
/// of the kernel writes them.
template <RowAccess access, int N>
TROUPE_DEVICE Floats<N> load_shared(const float* from, int count) {
  Floats<N> out;
  if constexpr (access == RowAccess::single) {
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      out.values[i] = i < count ? from[i] : 0.0F;
    }
  } else {
    static_assert(N % 4 == 0);
    TROUPE_UNROLL
    for (int i = 0; i < N; i += 4) {
      const Unit<float, 4> unit = load_constant(from + i);
      TROUPE_UNROLL
      for (int j = 0; j < 4; ++j) {
        out.values[i + j] = unit.values[j];
      }
    }
  }
  return out;
}

/// The sum of pairs, then of pairs of pairs, and so on.
template <int N>
TROUPE_DEVICE float sum_of(const float (&values)[N]) {
  float sums[N];
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i) {
    sums[i] = values[i];
  }
  TROUPE_UNROLL
  for (int apart = 1; apart < N; apart *= 2) {
    TROUPE_UNROLL
    for (int i = 0; i + apart < N; i += 2 * apart) {
      sums[i] = add(sums[i], sums[i + apart]);
    }
  }
  return sums[0];
}

/// Reduces the values of the row's threads by `join`; all of them get the
/// result. Within a warp by halves, then warp after warp. Every thread of the
/// block calls it. `shared`: kMaxWarps floats that no other reduction of the
/// kernel uses.
template <typename Lane, typename Join>
TROUPE_DEVICE float join_row(Lane& lane, int threads, float value,
                             float* shared, const Join& join) {
  TROUPE_UNROLL
  for (int mask = Lane::kWarp / 2; mask > 0; mask /= 2) {
    if (mask < threads) {
      value = join(value, lane.shuffle_xor(value, mask));
    }
  }
  if (threads > Lane::kWarp) {
    if (lane.thread() % Lane::kWarp == 0) {
      shared[lane.thread() / Lane::kWarp] = value;
    }
    lane.sync();
    value = shared[0];
    for (int warp = 1; warp < threads / Lane::kWarp; ++warp) {
      value = join(value, shared[warp]);
    }
  }
  return value;
}
template <typename Lane>
TROUPE_DEVICE float sum_row(Lane& lane, int threads, float value,
                            float* shared) {
  return join_row(lane, threads, value, shared,
                  [](float a, float b) { return add(a, b); });
}

/// 1 / √x, both steps rounded to nearest.
TROUPE_DEVICE float inverse_root(float x) {
#if defined(__CUDA_ARCH__)
  return __frcp_rn(__fsqrt_rn(x));
#else
  return 1.0F / std::sqrt(x);
#endif
}

/// Whether the units of N elements of all rows are aligned. Row r starts at
/// first + r · pitch.
template <int N, typename T>
[[nodiscard]] bool fits(const T* first, std::int64_t pitch) {
  return is_aligned<N>(first) && pitch % N == 0;
}
/// The same for parameters, which load_shared reads by 16 bytes.
template <int N>
[[nodiscard]] bool parameters_fit(const float* first, std::int64_t pitch = 0) {
  return is_aligned<4>(first) && pitch % N == 0;
}

}  // namespace troupe::kernels::cuda
