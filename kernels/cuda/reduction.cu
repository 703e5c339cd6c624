#include <algorithm>

#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/units.cuh"

// Numbers read off tensors. A tensor is cut into groups of 16 bytes; which
// thread of which block takes a group follows from the number of elements
// alone, so a sum has the same bits wherever the tensor lies and whatever GPU
// it is on. Up to kGroupsPerBlock groups (latents) are one launch; above that
// every block writes its part and a second launch adds the parts.

namespace troupe::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kGroupsPerBlock = 4096;
constexpr std::int64_t kMostBlocks = 1024;

/// Four neighbouring elements, also where memory is not aligned to 16 bytes
/// (N = 1): the groups are the same.
template <int N, typename T>
TROUPE_DEVICE Unit<T, 4> load_group(const T* from) {
  if constexpr (N == 4) {
    return load<4>(from);
  } else {
    Unit<T, 4> group;
    TROUPE_UNROLL
    for (int i = 0; i < 4; ++i) {
      group.values[i] = from[i];
    }
    return group;
  }
}

// What a reduction reads: groups, and the elements after the last whole group.
// Each kind has State (a thread's part), kGroup (elements), load, take,
// take_one and total.

enum class Summand : std::uint8_t { squared_difference, square, itself };

/// Σ (a − b)², Σ a² or Σ a.
template <int N, Summand kOf>
struct Sums {
  static constexpr bool kHasB = kOf == Summand::squared_difference;
  static constexpr const char* kName = kHasB ? "sum_squared_difference"
                                       : kOf == Summand::square ? "sum_squares"
                                                                : "sum";
  static constexpr std::int64_t kGroup = 4;

  const float* a;
  const float* b;  ///< null unless kHasB

  struct State {
    double sums[4] = {0, 0, 0, 0};
  };
  struct Group {
    Unit<float, 4> a;
    Unit<float, 4> b;
  };
  TROUPE_DEVICE Group load(std::int64_t at) const {
    Group group;
    group.a = load_group<N>(a + at);
    if constexpr (kHasB) {
      group.b = load_group<N>(b + at);
    }
    return group;
  }
  static TROUPE_DEVICE void add_to(double& sum, float a, float b) {
    const double value = kHasB ? static_cast<double>(a) - static_cast<double>(b)
                               : static_cast<double>(a);
    sum =
        kOf == Summand::itself ? sum + value : multiply_add(value, value, sum);
  }
  static TROUPE_DEVICE void take(State& state, const Group& group) {
    TROUPE_UNROLL
    for (int i = 0; i < 4; ++i) {
      add_to(state.sums[i], group.a.values[i],
             kHasB ? group.b.values[i] : 0.0F);
    }
  }
  TROUPE_DEVICE void take_one(State& state, std::int64_t at) const {
    add_to(state.sums[0], a[at], kHasB ? b[at] : 0.0F);
  }
  static TROUPE_DEVICE double total(const State& state) {
    return (state.sums[0] + state.sums[1]) + (state.sums[2] + state.sums[3]);
  }
};

/// More than 0 when a byte differs. N is the bytes of a load.
template <int N>
struct Differs {
  static constexpr const char* kName = "bytes_equal";
  static constexpr std::int64_t kGroup = 16;

  const std::uint8_t* a;
  const std::uint8_t* b;

  struct State {
    std::uint32_t bits = 0;
  };
  struct Group {
    Unit<std::uint32_t, 4> a;
    Unit<std::uint32_t, 4> b;
  };
  static TROUPE_DEVICE Unit<std::uint32_t, 4> load_words(
      const std::uint8_t* from) {
    if constexpr (N >= 4) {
      return load_group<N / 4>(reinterpret_cast<const std::uint32_t*>(from));
    } else {
      Unit<std::uint32_t, 4> words;
      TROUPE_UNROLL
      for (int i = 0; i < 4; ++i) {
        words.values[i] = 0;
        TROUPE_UNROLL
        for (int byte = 0; byte < 4; ++byte) {
          words.values[i] |= static_cast<std::uint32_t>(from[4 * i + byte])
                             << static_cast<unsigned>(8 * byte);
        }
      }
      return words;
    }
  }
  TROUPE_DEVICE Group load(std::int64_t at) const {
    return {load_words(a + at), load_words(b + at)};
  }
  static TROUPE_DEVICE void take(State& state, const Group& group) {
    TROUPE_UNROLL
    for (int i = 0; i < 4; ++i) {
      state.bits |= group.a.values[i] ^ group.b.values[i];
    }
  }
  TROUPE_DEVICE void take_one(State& state, std::int64_t at) const {
    state.bits |= static_cast<std::uint32_t>(a[at] ^ b[at]);
  }
  static TROUPE_DEVICE double total(const State& state) {
    return state.bits == 0 ? 0.0 : 1.0;
  }
};

/// More than 0 when an element is infinite or NaN.
template <int N>
struct NonFinite {
  static constexpr const char* kName = "all_finite";
  static constexpr std::int64_t kGroup = 4;
  static constexpr std::uint32_t kExponent = 0x7f800000U;

  const float* x;

  struct State {
    bool found = false;
  };
  using Group = Unit<float, 4>;
  static TROUPE_DEVICE bool is_finite(float value) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t bits = __float_as_uint(value);
#else
    const auto bits = std::bit_cast<std::uint32_t>(value);
#endif
    return (bits & kExponent) != kExponent;
  }
  TROUPE_DEVICE Group load(std::int64_t at) const {
    return load_group<N>(x + at);
  }
  static TROUPE_DEVICE void take(State& state, const Group& group) {
    TROUPE_UNROLL
    for (int i = 0; i < 4; ++i) {
      state.found = state.found || !is_finite(group.values[i]);
    }
  }
  TROUPE_DEVICE void take_one(State& state, std::int64_t at) const {
    state.found = state.found || !is_finite(x[at]);
  }
  static TROUPE_DEVICE double total(const State& state) {
    return state.found ? 1.0 : 0.0;
  }
};

/// What becomes of the last sum.
TROUPE_DEVICE double result_of(double total, bool is_count) {
  return is_count ? (total == 0 ? 1.0 : 0.0) : total;
}

template <typename Read>
struct Reduce {
  static constexpr const char* kName = Read::kName;
  static constexpr int kThreads = cuda::kThreads;
  static constexpr bool kCooperates = true;
  /// Groups of a thread whose loads are in flight together.
  static constexpr int kAhead = 4;

  Read read;
  std::int64_t count;  ///< elements
  bool is_count;       ///< writes 1 for none and 0 for some
  double* parts;       ///< one of each block

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t groups = count / Read::kGroup;
    const std::int64_t stride = lane.num_blocks() * kThreads;
    std::int64_t group = lane.block() * kThreads + lane.thread();
    typename Read::State state;
    for (; group + (kAhead - 1) * stride < groups; group += kAhead * stride) {
      typename Read::Group ahead[kAhead];
      TROUPE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        ahead[i] = read.load((group + i * stride) * Read::kGroup);
      }
      TROUPE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        Read::take(state, ahead[i]);
      }
    }
    for (; group < groups; group += stride) {
      Read::take(state, read.load(group * Read::kGroup));
    }
    if (lane.block() == 0 && lane.thread() < count % Read::kGroup) {
      read.take_one(state, groups * Read::kGroup + lane.thread());
    }
    const double total = block_sum(lane, Read::total(state));
    if (lane.thread() == 0) {
      parts[lane.block()] =
          lane.num_blocks() == 1 ? result_of(total, is_count) : total;
    }
  }
};

struct AddParts {
  static constexpr const char* kName = "add_parts";
  static constexpr int kThreads = cuda::kThreads;
  static constexpr bool kCooperates = true;

  const double* parts;
  std::int64_t num_parts;
  bool is_count;
  double* value;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    double sum = 0;
    for (std::int64_t i = lane.thread(); i < num_parts; i += kThreads) {
      sum += parts[i];
    }
    const double total = block_sum(lane, sum);
    if (lane.thread() == 0) {
      *value = result_of(total, is_count);
    }
  }
};

double* doubles(Tensor& memory) {
  return reinterpret_cast<double*>(memory.bytes().data());
}

template <typename Read>
void launch_reduce(ExecContext& ctx, const Read& read, std::int64_t count,
                   bool is_count, double* value) {
  Backend& backend = Backend::of(ctx);
  const std::int64_t blocks = std::clamp<std::int64_t>(
      (count / Read::kGroup + kGroupsPerBlock - 1) / kGroupsPerBlock, 1,
      kMostBlocks);
  const std::size_t shared = block_sum_bytes(kThreads);
  if (blocks == 1) {
    return launch(backend, Reduce<Read>{read, count, is_count, value}, {1},
                  kThreads, shared);
  }
  const Workspace::Scope scope(ctx.workspace());
  Tensor parts = ctx.workspace().take({blocks, 8}, DType::u8);
  launch(backend, Reduce<Read>{read, count, is_count, doubles(parts)}, {blocks},
         kThreads, shared);
  launch(backend, AddParts{doubles(parts), blocks, is_count, value}, {1},
         kThreads, shared);
}

void launch_differs(ExecContext& ctx, const Tensor& a, const Tensor& b,
                    double* value) {
  const auto* left = reinterpret_cast<const std::uint8_t*>(a.bytes().data());
  const auto* right = reinterpret_cast<const std::uint8_t*>(b.bytes().data());
  const auto steps = reinterpret_cast<std::uintptr_t>(left) |
                     reinterpret_cast<std::uintptr_t>(right);
  const auto count = static_cast<std::int64_t>(a.num_bytes());
  if (steps % 16 == 0) {
    launch_reduce(ctx, Differs<16>{left, right}, count, true, value);
  } else if (steps % 4 == 0) {
    launch_reduce(ctx, Differs<4>{left, right}, count, true, value);
  } else {
    launch_reduce(ctx, Differs<1>{left, right}, count, true, value);
  }
}

/// b: null where the summand is of `a` alone.
template <Summand kOf>
void launch_sum(ExecContext& ctx, const Tensor& a, const float* b,
                double* value) {
  const auto* from = a.data<float>();
  const auto count = a.num_elements();
  if (is_aligned<4>(from) && is_aligned<4>(b)) {
    launch_reduce(ctx, Sums<4, kOf>{from, b}, count, false, value);
  } else {
    launch_reduce(ctx, Sums<1, kOf>{from, b}, count, false, value);
  }
}

double* value_at(Tensor& values, std::size_t index) {
  require(values.dtype() == DType::u8 &&
              index < values.num_bytes() / sizeof(double),
          Errc::internal, "reduction", "there is no place for the number");
  return doubles(values) + index;
}

}  // namespace

void sum_squared_difference(ExecContext& ctx, const Tensor& a, const Tensor& b,
                            Tensor& values, std::size_t index) {
  launch_sum<Summand::squared_difference>(ctx, a, b.data<float>(),
                                          value_at(values, index));
}

void sum_squares(ExecContext& ctx, const Tensor& a, Tensor& values,
                 std::size_t index) {
  launch_sum<Summand::square>(ctx, a, nullptr, value_at(values, index));
}

void sum(ExecContext& ctx, const Tensor& a, Tensor& values, std::size_t index) {
  launch_sum<Summand::itself>(ctx, a, nullptr, value_at(values, index));
}

void bytes_equal(ExecContext& ctx, const Tensor& a, const Tensor& b,
                 Tensor& values, std::size_t index) {
  launch_differs(ctx, a, b, value_at(values, index));
}

void all_finite(ExecContext& ctx, const Tensor& x, Tensor& values,
                std::size_t index) {
  const auto* from = x.data<float>();
  const auto count = x.num_elements();
  if (is_aligned<4>(from)) {
    launch_reduce(ctx, NonFinite<4>{from}, count, true,
                  value_at(values, index));
  } else {
    launch_reduce(ctx, NonFinite<1>{from}, count, true,
                  value_at(values, index));
  }
}

}  // namespace troupe::kernels::cuda
