#include "kernels/cuda/ops.h"
#include "kernels/cuda/row_plan.cuh"

namespace troupe::kernels::cuda {
namespace {

/// The operands of both kernels. Tables [tokens, head_dim / 2] are null where
/// nothing is rotated.
template <typename T>
struct Heads {
  T* x;  ///< column 0 of head 0 of token 0
  std::int64_t pitch;
  const float* weight;
  const float* cosines;
  const float* sines;
  std::uint32_t tokens;  ///< of an item
  int num_heads;
  int head_dim;
  float eps;

  [[nodiscard]] bool aligned() const {
    constexpr int kUnit = kPerLoad<T>;
    return fits<kUnit>(x, pitch) && head_dim % kUnit == 0 &&
           parameters_fit<kUnit>(weight) &&
           // A unit's pairs: 16 bytes of a table, or 8.
           is_aligned<kUnit / 2>(cosines) && is_aligned<kUnit / 2>(sines);
  }
};

/// Cosines and sines of a unit's pairs.
template <int N>
struct Angles {
  float cosines[N / 2];
  float sines[N / 2];
};

template <RowAccess access, int N>
TROUPE_DEVICE Angles<N> load_angles(const float* cosines, const float* sines,
                                    std::int64_t first, int count) {
  Angles<N> angles;
  if constexpr (access == RowAccess::single) {
    TROUPE_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      angles.cosines[i] = 2 * i < count ? cosines[first + i] : 1.0F;
      angles.sines[i] = 2 * i < count ? sines[first + i] : 0.0F;
    }
  } else {
    const auto cosine = load<N / 2>(cosines + first);
    const auto sine = load<N / 2>(sines + first);
    TROUPE_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      angles.cosines[i] = cosine.values[i];
      angles.sines[i] = sine.values[i];
    }
  }
  return angles;
}

template <int N>
TROUPE_DEVICE float sum_of_squares(const Floats<N>& values) {
  float squares[N];
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i) {
    squares[i] = multiply(values.values[i], values.values[i]);
  }
  return sum_of(squares);
}

template <int N>
TROUPE_DEVICE void scale(Floats<N>& values, float inverse,
                         const Floats<N>& weights) {
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i) {
    values.values[i] =
        multiply(multiply(values.values[i], inverse), weights.values[i]);
  }
}

/// Rotates the pairs (2i, 2i + 1), each product rounded.
template <int N>
TROUPE_DEVICE void rotate(Floats<N>& values, const Angles<N>& angles) {
  TROUPE_UNROLL
  for (int i = 0; i < N / 2; ++i) {
    const float a = values.values[2 * i];
    const float b = values.values[2 * i + 1];
    values.values[2 * i] =
        add(multiply(a, angles.cosines[i]), -multiply(b, angles.sines[i]));
    values.values[2 * i + 1] =
        add(multiply(a, angles.sines[i]), multiply(b, angles.cosines[i]));
  }
}

/// Heads of up to a warp of units, each normalised by itself: a block per
/// token, a team of threads per head. A thread has the same place in every head
/// it meets, so weight and angles are loaded once per token.
template <typename T>
struct RopeOfHeads {
  static constexpr const char* kName = "rms_norm_rope";
  static constexpr int kThreads = 128;
  static constexpr bool kCooperates = true;
  static constexpr int kUnit = kPerLoad<T>;
  static constexpr int kAhead = 3;  ///< heads whose loads are in flight

  Heads<T> heads;
  int threads;  ///< of a head, a power of two
  int place_shift;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const int team = lane.thread() >> place_shift;
    const int teams = kThreads >> place_shift;
    const int first = (lane.thread() - team * threads) * kUnit;
    const bool is_live = first < heads.head_dim;
    const auto token = static_cast<std::uint32_t>(lane.block()) % heads.tokens;
    Floats<kUnit> weights{};
    Angles<kUnit> angles{};
    if (is_live) {
      weights =
          load_shared<RowAccess::held, kUnit>(heads.weight + first, kUnit);
      if (heads.cosines != nullptr) {
        angles = load_angles<RowAccess::held, kUnit>(
            heads.cosines, heads.sines,
            std::int64_t{token} * (heads.head_dim / 2) + first / 2, kUnit);
      }
    }
    T* at = heads.x + lane.block() * heads.pitch + first;
    for (int begin = 0; begin < heads.num_heads; begin += kAhead * teams) {
      Unit<T, kUnit> units[kAhead] = {};
      TROUPE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const int head = begin + i * teams + team;
        if (is_live && head < heads.num_heads) {
          units[i] = load_row<RowAccess::held, kUnit>(
              static_cast<const T*>(at) + std::int64_t{head} * heads.head_dim,
              kUnit);
        }
      }
      TROUPE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const int head = begin + i * teams + team;
        Floats<kUnit> values = floats(units[i]);
        // Zeros where there is no head.
        const float squares =
            sum_row(lane, threads, sum_of_squares(values), nullptr);
        const float inverse = inverse_root(add(
            quotient(squares, static_cast<float>(heads.head_dim)), heads.eps));
        scale(values, inverse, weights);
        if (heads.cosines != nullptr) {
          rotate(values, angles);
        }
        if (is_live && head < heads.num_heads) {
          store_whole<kUnit>(rounded<T>(values),
                             at + std::int64_t{head} * heads.head_dim);
        }
      }
    }
  }
};

/// Rows of any width: a row is one head, or all heads of a token.
template <typename T, RowAccess access>
struct RopeOfRows {
  static constexpr const char* kName = "rms_norm_rope";
  static constexpr int kThreads = kRowThreads;
  static constexpr bool kCooperates = true;
  static constexpr int kUnit = kPerLoad<T>;
  static constexpr std::size_t kSharedBytes = kMaxWarps * sizeof(float);
  using Share = RowShare<kUnit, access>;

  Heads<T> heads;
  RowPlan plan;
  std::uint32_t rows_per_token;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const Share share(plan, lane);
    const std::uint32_t token = share.row / rows_per_token;
    T* row = heads.x + token * heads.pitch +
             std::int64_t{share.row - token * rows_per_token} * plan.width;
    Unit<T, kUnit> units[Share::kKept];
    if constexpr (Share::kHeld) {
      share.each([&](int slot, int first, int count) {
        units[slot] =
            load_row<access, kUnit>(static_cast<const T*>(row) + first, count);
      });
    }
    const auto read = [&](int slot, int first, int count) {
      if constexpr (!Share::kHeld) {
        units[0] =
            load_row<access, kUnit>(static_cast<const T*>(row) + first, count);
      }
      return floats(units[slot]);
    };
    float squares = 0;
    share.each([&](int slot, int first, int count) {
      squares = add(squares, sum_of_squares(read(slot, first, count)));
    });
    squares =
        sum_row(lane, plan.threads, squares, lane.template shared<float>());
    const float inverse = inverse_root(
        add(quotient(squares, static_cast<float>(plan.width)), heads.eps));
    const std::int64_t angles =
        std::int64_t{token % heads.tokens} * (heads.head_dim / 2);
    share.each([&](int slot, int first, int count) {
      Floats<kUnit> values = read(slot, first, count);
      scale(values, inverse,
            load_shared<access, kUnit>(heads.weight + first, count));
      if (heads.cosines != nullptr) {
        turn(values, angles, first, count);
      }
      store_row<access>(rounded<T>(values), row + first, count);
    });
  }

  TROUPE_DEVICE void turn(Floats<kUnit>& values, std::int64_t angles, int first,
                          int count) const {
    if constexpr (access == RowAccess::single) {
      // A unit may reach into the next head, a pair does not.
      Angles<kUnit> pairs;
      TROUPE_UNROLL
      for (int i = 0; i < kUnit / 2; ++i) {
        const std::int64_t pair = angles + (first + 2 * i) % heads.head_dim / 2;
        pairs.cosines[i] = 2 * i < count ? heads.cosines[pair] : 1.0F;
        pairs.sines[i] = 2 * i < count ? heads.sines[pair] : 0.0F;
      }
      rotate(values, pairs);
    } else {
      rotate(values, load_angles<access, kUnit>(
                         heads.cosines, heads.sines,
                         angles + first % heads.head_dim / 2, count));
    }
  }
};

template <typename T>
void queue_rope(Backend& backend, const Heads<T>& heads, std::int64_t tokens,
                bool across_heads) {
  constexpr int kUnit = kPerLoad<T>;
  const std::int64_t rows_per_token = across_heads ? 1 : heads.num_heads;
  const std::int64_t width =
      std::int64_t{heads.head_dim} * (across_heads ? heads.num_heads : 1);
  const RowPlan plan = plan_rows(tokens * rows_per_token, width, kUnit,
                                 across_heads ? kHeldUnits : 1);
  const bool aligned = heads.aligned();
  // Heads share their sums' order between the two kernels, so addresses and
  // pitch choose nothing but the speed.
  if (aligned && !across_heads && plan.threads <= 32) {
    using Kernel = RopeOfHeads<T>;
    launch(backend, Kernel{heads, plan.threads, plan.place_shift}, {tokens});
    return;
  }
  with_access(plan, aligned, [&](auto access) {
    using Kernel = RopeOfRows<T, access.value>;
    launch(backend,
           Kernel{heads, plan, static_cast<std::uint32_t>(rows_per_token)},
           {plan.blocks()}, plan.block_threads(), Kernel::kSharedBytes);
  });
}

}  // namespace

void rms_norm_rope(ExecContext& ctx, const Tensor& weight,
                   const Tensor& cosines, const Tensor& sines,
                   std::int64_t num_heads, std::int64_t head_dim, float eps,
                   HeadsView& x) {
  Backend& backend = Backend::of(ctx);
  const std::int64_t tokens = x.base.dim(0) * x.base.dim(1);
  if (x.base.empty() || num_heads == 0 || head_dim == 0) {
    return;
  }
  const auto angles = [](const Tensor& table) {
    return table.empty() ? nullptr : table.data<float>();
  };
  with_element(x.base.dtype(), [&]<typename T>(T) {
    const Heads<T> heads{x.base.data<T>() + x.column,
                         x.base.dim(2),
                         weight.data<float>(),
                         angles(cosines),
                         angles(sines),
                         static_cast<std::uint32_t>(x.base.dim(1)),
                         static_cast<int>(num_heads),
                         static_cast<int>(head_dim),
                         eps};
    // With one head, a weight per head is also a weight per token.
    queue_rope(backend, heads, tokens, weight.dim(0) != head_dim);
  });
}

}  // namespace troupe::kernels::cuda
