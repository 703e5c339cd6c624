#include "kernels/cuda/ops.h"
#include "kernels/cuda/row_plan.cuh"

namespace troupe::kernels::cuda {
namespace {

/// What the rows of an item share: columns of a modulation matrix, or of
/// weights that all items share (`pitch` 0).
struct Modulated {
  const float* shift;  ///< of item 0
  const float* scale;
  const float* gate;  ///< null: 1, or nothing is added
  std::int64_t pitch;
  std::uint32_t rows_per_item;

  template <int N>
  [[nodiscard]] bool fit() const {
    return parameters_fit<N>(shift, pitch) && parameters_fit<N>(scale, pitch) &&
           (gate == nullptr || parameters_fit<N>(gate, pitch));
  }
  TROUPE_DEVICE std::int64_t offset(std::uint32_t row) const {
    return row / rows_per_item * pitch;
  }
};

/// The f32 residual stream, as one thread of a row sees it.
template <RowAccess access>
struct ResidualRow {
  static constexpr int kUnit = 4;
  using Share = RowShare<kUnit, access>;

  const Share& share;
  float* x;  ///< the row's first element
  Unit<float, kUnit> values[Share::kKept];

  TROUPE_DEVICE ResidualRow(const Share& row_share, float* row)
      : share(row_share), x(row) {}

  TROUPE_DEVICE Unit<float, kUnit> load_x(int first, int count) const {
    return load_row<access, kUnit>(static_cast<const float*>(x) + first, count);
  }
  TROUPE_DEVICE void read() {
    if constexpr (Share::kHeld) {
      share.each([&](int slot, int first, int count) {
        values[slot] = load_x(first, count);
      });
    }
  }

  /// x += gate · y in memory and here, with the roundings of add_gated. Without
  /// a gate x += y: a factor of 1 changes no bit.
  template <typename Y>
  TROUPE_DEVICE void add_gated(const float* gate, const Y* y) {
    Unit<Y, kUnit> added[Share::kKept];
    Floats<kUnit> gates[Share::kKept];
    const auto load_operands = [&](int slot, int first, int count) {
      added[slot] = load_row<access, kUnit>(y + first, count);
      if (gate != nullptr) {
        gates[slot] = load_shared<access, kUnit>(gate + first, count);
      } else {
        gates[slot] = Floats<kUnit>{{1, 1, 1, 1}};
      }
    };
    if constexpr (Share::kHeld) {
      share.each(load_operands);
    }
    share.each([&](int slot, int first, int count) {
      if constexpr (!Share::kHeld) {
        values[0] = load_x(first, count);
        load_operands(0, first, count);
      }
      TROUPE_UNROLL
      for (int i = 0; i < kUnit; ++i) {
        values[slot].values[i] = add(
            values[slot].values[i],
            multiply(gates[slot].values[i], to_float(added[slot].values[i])));
      }
      store_row<access>(values[slot], x + first, count);
    });
  }

  /// Calls fn(slot, elements, first, count); elements beyond `count` are 0.
  template <typename Fn>
  TROUPE_DEVICE void each(const Fn& fn) {
    share.each([&](int slot, int first, int count) {
      if constexpr (!Share::kHeld) {
        values[0] = load_x(first, count);
      }
      fn(slot, values[slot].values, first, count);
    });
  }
};

struct Moments {
  float mean;
  float inverse;  ///< 1 / √(variance + eps)
};

/// The variance is summed over differences from the mean, not as what two large
/// numbers leave.
template <typename Lane, RowAccess access>
TROUPE_DEVICE Moments moments_of(Lane& lane, const RowPlan& plan,
                                 ResidualRow<access>& row, float eps) {
  auto* shared = lane.template shared<float>();
  const auto width = static_cast<float>(plan.width);
  float sum = 0;
  row.each([&](int /*slot*/, const auto& values, int /*first*/, int /*count*/) {
    sum = add(sum, sum_of(values));
  });
  const float mean = quotient(sum_row(lane, plan.threads, sum, shared), width);
  float squares = 0;
  row.each([&](int /*slot*/, const auto& values, int /*first*/, int count) {
    float parts[ResidualRow<access>::kUnit];
    TROUPE_UNROLL
    for (int i = 0; i < ResidualRow<access>::kUnit; ++i) {
      const float difference = i < count ? add(values[i], -mean) : 0.0F;
      parts[i] = multiply(difference, difference);
    }
    squares = add(squares, sum_of(parts));
  });
  const float variance =
      quotient(sum_row(lane, plan.threads, squares, shared + kMaxWarps), width);
  return {mean, inverse_root(add(variance, eps))};
}

/// As the factor of a layer norm, scale stands for itself, not for 1 + scale.
struct Affine {};

/// out = layer_norm(x) · (1 + scale) + shift; with a number as Y, after
/// x += gate · y. Y is Affine: out = layer_norm(x) · scale + shift. One body
/// for all: the second op's bits are those of the first after add_gated.
template <typename Y, typename Out, RowAccess access>
struct LayerNormModulate {
  static constexpr bool kIsAffine = std::is_same_v<Y, Affine>;
  static constexpr bool kAdds = !std::is_void_v<Y> && !kIsAffine;
  static constexpr const char* kName = kIsAffine ? "layer_norm"
                                       : kAdds   ? "add_layer_norm_modulate"
                                                 : "layer_norm_modulate";
  static constexpr int kThreads = kRowThreads;
  static constexpr bool kCooperates = true;
  static constexpr int kUnit = ResidualRow<access>::kUnit;
  using Share = RowShare<kUnit, access>;
  static constexpr std::size_t kSharedBytes = 2 * kMaxWarps * sizeof(float);

  RowPlan plan;
  float* x;  ///< written only when kAdds
  const Y* y;
  Out* out;
  Modulated modulated;
  float eps;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const Share share(plan, lane);
    const std::int64_t start = std::int64_t{share.row} * plan.width;
    const std::int64_t item = modulated.offset(share.row);
    ResidualRow<access> row(share, x + start);
    row.read();
    if constexpr (kAdds) {
      row.add_gated(modulated.gate == nullptr ? nullptr : modulated.gate + item,
                    y + start);
    }
    Floats<kUnit> shifts[Share::kKept];
    Floats<kUnit> scales[Share::kKept];
    const auto load_modulation = [&](int slot, int first, int count) {
      shifts[slot] =
          load_shared<access, kUnit>(modulated.shift + item + first, count);
      scales[slot] =
          load_shared<access, kUnit>(modulated.scale + item + first, count);
    };
    if constexpr (Share::kHeld) {
      share.each(load_modulation);  // while x is on its way
    }
    const Moments moments = moments_of(lane, plan, row, eps);
    row.each([&](int slot, const auto& values, int first, int count) {
      if constexpr (!Share::kHeld) {
        load_modulation(0, first, count);
      }
      Floats<kUnit> result;
      TROUPE_UNROLL
      for (int i = 0; i < kUnit; ++i) {
        const float normal =
            multiply(add(values[i], -moments.mean), moments.inverse);
        const float scale = scales[slot].values[i];
        result.values[i] =
            multiply_add(normal, kIsAffine ? scale : add(1.0F, scale),
                         shifts[slot].values[i]);
      }
      store_row<access>(rounded<Out>(result), out + start + first, count);
    });
  }
};

/// Queues the operation; y is null without an addition.
template <typename Y>
void queue_layer_norm(ExecContext& ctx, float* x, const Y* y,
                      const Modulated& modulated, std::int64_t rows, float eps,
                      Tensor& out) {
  Backend& backend = Backend::of(ctx);
  constexpr int kUnit = ResidualRow<RowAccess::held>::kUnit;
  const std::int64_t width = out.dim(out.shape().rank() - 1);
  const RowPlan plan = plan_rows(rows, width, kUnit);
  with_element(out.dtype(), [&]<typename Out>(Out) {
    auto* to = out.data<Out>();
    bool aligned = fits<kUnit>(x, width) && fits<kUnit>(to, width) &&
                   modulated.fit<kUnit>();
    if constexpr (!std::is_void_v<Y> && !std::is_same_v<Y, Affine>) {
      aligned = aligned && fits<kUnit>(y, width);
    }
    with_access(plan, aligned, [&](auto access) {
      using Kernel = LayerNormModulate<Y, Out, access.value>;
      launch(backend, Kernel{plan, x, y, to, modulated, eps}, {plan.blocks()},
             plan.block_threads(), Kernel::kSharedBytes);
    });
  });
}

/// out = x · weight / √(mean(x²) + eps).
template <typename T, typename Out, RowAccess access>
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  static constexpr int kThreads = kRowThreads;
  static constexpr bool kCooperates = true;
  static constexpr int kUnit = kTogether<T, Out>;
  static constexpr std::size_t kSharedBytes = kMaxWarps * sizeof(float);

  RowPlan plan;
  const T* x;
  const float* weight;
  Out* out;
  float eps;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const RowShare<kUnit, access> share(plan, lane);
    const T* from = x + std::int64_t{share.row} * plan.width;
    Out* to = out + std::int64_t{share.row} * plan.width;
    Unit<T, kUnit> units[RowShare<kUnit, access>::kKept];
    if constexpr (kIsHeld<access>) {
      share.each([&](int slot, int first, int count) {
        units[slot] = load_row<access, kUnit>(from + first, count);
      });
    }
    const auto read = [&](int slot, int first, int count) {
      if constexpr (!kIsHeld<access>) {
        units[0] = load_row<access, kUnit>(from + first, count);
      }
      return floats(units[slot]);
    };
    float squares = 0;
    share.each([&](int slot, int first, int count) {
      Floats<kUnit> values = read(slot, first, count);
      TROUPE_UNROLL
      for (float& value : values.values) {
        value = multiply(value, value);
      }
      squares = add(squares, sum_of(values.values));
    });
    squares =
        sum_row(lane, plan.threads, squares, lane.template shared<float>());
    const float inverse = inverse_root(
        add(quotient(squares, static_cast<float>(plan.width)), eps));
    share.each([&](int slot, int first, int count) {
      Floats<kUnit> values = read(slot, first, count);
      const auto weights = load_shared<access, kUnit>(weight + first, count);
      TROUPE_UNROLL
      for (int i = 0; i < kUnit; ++i) {
        values.values[i] =
            multiply(multiply(values.values[i], inverse), weights.values[i]);
      }
      store_row<access>(rounded<Out>(values), to + first, count);
    });
  }
};

}  // namespace

void layer_norm_modulate(ExecContext& ctx, const Tensor& x,
                         const Tensor& modulation, std::int64_t shift_column,
                         std::int64_t scale_column, float eps, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const auto* columns = modulation.data<float>();
  const Modulated modulated{columns + shift_column, columns + scale_column,
                            nullptr, modulation.dim(1),
                            static_cast<std::uint32_t>(x.dim(1))};
  // Without a y nothing is written to x.
  queue_layer_norm<void>(ctx, const_cast<float*>(x.data<float>()), nullptr,
                         modulated, x.dim(0) * x.dim(1), eps, out);
}

void layer_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, float eps, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const std::int64_t rows = x.num_elements() / weight.dim(0);
  const Modulated shared{bias.data<float>(), weight.data<float>(), nullptr, 0,
                         1};
  queue_layer_norm<Affine>(ctx, const_cast<float*>(x.data<float>()), nullptr,
                           shared, rows, eps, out);
}

void add_layer_norm_modulate(ExecContext& ctx, const Tensor& modulation,
                             std::optional<std::int64_t> gate_column,
                             const Tensor& y, std::int64_t shift_column,
                             std::int64_t scale_column, float eps, Tensor& x,
                             Tensor& out) {
  if (x.empty()) {
    return;
  }
  const auto* columns = modulation.data<float>();
  const Modulated modulated{columns + shift_column, columns + scale_column,
                            gate_column ? columns + *gate_column : nullptr,
                            modulation.dim(1),
                            static_cast<std::uint32_t>(x.dim(1))};
  with_element(y.dtype(), [&]<typename Y>(Y) {
    queue_layer_norm<Y>(ctx, x.data<float>(), y.data<Y>(), modulated,
                        x.dim(0) * x.dim(1), eps, out);
  });
}

void rms_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
              float eps, Tensor& out) {
  if (x.empty()) {
    return;
  }
  Backend& backend = Backend::of(ctx);
  const std::int64_t width = weight.dim(0);
  with_element(x.dtype(), [&]<typename T>(T) {
    with_element(out.dtype(), [&]<typename Out>(Out) {
      constexpr int kUnit = kTogether<T, Out>;
      const RowPlan plan = plan_rows(x.num_elements() / width, width, kUnit);
      const auto* from = x.data<T>();
      const auto* weights = weight.data<float>();
      auto* to = out.data<Out>();
      const bool aligned = fits<kUnit>(from, width) && fits<kUnit>(to, width) &&
                           parameters_fit<kUnit>(weights);
      with_access(plan, aligned, [&](auto access) {
        using Kernel = RmsNorm<T, Out, access.value>;
        launch(backend, Kernel{plan, from, weights, to, eps}, {plan.blocks()},
               plan.block_threads(), Kernel::kSharedBytes);
      });
    });
  });
}

}  // namespace troupe::kernels::cuda
