#include "kernels/cuda/each.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

/// x += gate · y. A thread keeps one unit of columns of the gate and goes down
/// a few rows of one item, so the index arithmetic and the gate's load are paid
/// once for all of them and the rows' loads are in flight together.
template <typename Y, int N>
struct AddGated {
  static constexpr const char* kName = "add_gated";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr int kRows = 4;

  const float* gate;  ///< of item 0
  std::int64_t gate_pitch;
  const Y* y;
  float* x;
  std::int64_t items;
  std::int64_t rows;   ///< of an item
  std::int64_t width;  ///< a multiple of N

  [[nodiscard]] std::int64_t num_threads() const {
    return items * ((rows + kRows - 1) / kRows) * (width / N);
  }

  TROUPE_DEVICE void add_unit(const Unit<float, N>& factor,
                              const Unit<Y, N>& from, Unit<float, N> sum,
                              std::int64_t at) const {
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      sum.values[i] = add(sum.values[i],
                          multiply(factor.values[i], to_float(from.values[i])));
    }
    store<N>(sum, x + at);
  }

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t units = width / N;
    const std::int64_t groups = (rows + kRows - 1) / kRows;
    const std::int64_t id = lane.block() * kThreads + lane.thread();
    const std::int64_t group = id / units;
    const std::int64_t item = group / groups;
    if (item >= items) {
      return;
    }
    const std::int64_t column = (id - group * units) * N;
    const std::int64_t row = (group - item * groups) * kRows;
    const std::int64_t first = (item * rows + row) * width + column;
    const Unit<float, N> factor = load<N>(gate + item * gate_pitch + column);
    if (row + kRows <= rows) {
      Unit<float, N> sums[kRows];
      Unit<Y, N> from[kRows];
      TROUPE_UNROLL
      for (int i = 0; i < kRows; ++i) {
        sums[i] = load<N>(static_cast<const float*>(x) + first + i * width);
        from[i] = load<N>(y + first + i * width);
      }
      TROUPE_UNROLL
      for (int i = 0; i < kRows; ++i) {
        add_unit(factor, from[i], sums[i], first + i * width);
      }
      return;
    }
    for (std::int64_t i = row; i < rows; ++i) {
      const std::int64_t at = first + (i - row) * width;
      add_unit(factor, load<N>(y + at),
               load<N>(static_cast<const float*>(x) + at), at);
    }
  }
};

/// x += y.
template <typename Y, typename X>
struct Add {
  static constexpr const char* kName = "add";
  static constexpr int kWide = kTogether<Y, X>;
  static constexpr int kUnits = 4;

  const Y* y;
  X* x;

  template <int N>
  struct Inputs {
    Unit<Y, N> y;
    Unit<X, N> x;
  };
  [[nodiscard]] bool is_aligned() const {
    return cuda::is_aligned<kWide>(y) && cuda::is_aligned<kWide>(x);
  }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(y + at),
            cuda::load<N>(static_cast<const X*>(x) + at)};
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    Unit<X, N> sum;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      sum.values[i] = from_float<X>(
          add(to_float(inputs.x.values[i]), to_float(inputs.y.values[i])));
    }
    cuda::store<N>(sum, x + at);
  }
};

/// x += the vector of the element's item. A unit lies within one row.
template <typename X>
struct AddChannels {
  static constexpr const char* kName = "add_channels";
  static constexpr int kWide = kTogether<float, X>;
  static constexpr int kUnits = 4;

  const float* vectors;  ///< of item 0
  std::int64_t pitch;
  X* x;
  std::int64_t width;
  std::int64_t item_elements;

  template <int N>
  struct Inputs {
    Unit<float, N> vector;
    Unit<X, N> x;
  };
  [[nodiscard]] bool is_aligned() const {
    return cuda::is_aligned<kWide>(vectors) && cuda::is_aligned<kWide>(x) &&
           pitch % kWide == 0 && width % kWide == 0;
  }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(vectors + at / item_elements * pitch + at % width),
            cuda::load<N>(static_cast<const X*>(x) + at)};
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    Unit<X, N> sum;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      sum.values[i] = from_float<X>(
          add(to_float(inputs.x.values[i]), inputs.vector.values[i]));
    }
    cuda::store<N>(sum, x + at);
  }
};

template <typename From, typename To>
struct Convert {
  static constexpr const char* kName = "convert";
  static constexpr int kWide = kTogether<From, To>;
  static constexpr int kUnits = 4;

  const From* x;
  To* out;

  template <int N>
  struct Inputs {
    Unit<From, N> x;
  };
  [[nodiscard]] bool is_aligned() const {
    return cuda::is_aligned<kWide>(x) && cuda::is_aligned<kWide>(out);
  }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(x + at)};
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    Unit<To, N> result;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      result.values[i] = from_float<To>(to_float(inputs.x.values[i]));
    }
    cuda::store<N>(result, out + at);
  }
};

template <typename Y, int N>
void launch_add_gated(Backend& backend, const Tensor& modulation,
                      std::int64_t gate_column, const Tensor& y, Tensor& x) {
  using Kernel = AddGated<Y, N>;
  const Kernel kernel{modulation.data<float>() + gate_column,
                      modulation.dim(1),
                      y.data<Y>(),
                      x.data<float>(),
                      x.dim(0),
                      x.dim(1),
                      x.dim(2)};
  launch(backend, kernel, {blocks_for(kernel.num_threads(), Kernel::kThreads)});
}

}  // namespace

void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x) {
  Backend& backend = Backend::of(ctx);
  if (x.empty()) {
    return;
  }
  with_element(y.dtype(), [&](auto element) {
    using Y = decltype(element);
    constexpr int kWide = kTogether<float, Y>;
    const bool fits =
        x.dim(2) % kWide == 0 && modulation.dim(1) % kWide == 0 &&
        is_aligned<kWide>(modulation.data<float>() + gate_column) &&
        is_aligned<kWide>(y.data<Y>()) && is_aligned<kWide>(x.data<float>());
    if (fits) {
      launch_add_gated<Y, kWide>(backend, modulation, gate_column, y, x);
    } else {
      launch_add_gated<Y, 1>(backend, modulation, gate_column, y, x);
    }
  });
}

void add(ExecContext& ctx, const Tensor& y, Tensor& x) {
  Backend& backend = Backend::of(ctx);
  with_element(y.dtype(), [&](auto from) {
    with_element(x.dtype(), [&](auto to) {
      using Y = decltype(from);
      using X = decltype(to);
      launch_each(backend, Add<Y, X>{y.data<Y>(), x.data<X>()},
                  x.num_elements());
    });
  });
}

void add_channels(ExecContext& ctx, const Tensor& vectors, std::int64_t column,
                  Tensor& x) {
  if (x.empty()) {
    return;
  }
  Backend& backend = Backend::of(ctx);
  with_element(x.dtype(), [&]<typename X>(X) {
    launch_each(backend,
                AddChannels<X>{vectors.data<float>() + column, vectors.dim(1),
                               x.data<X>(), x.dim(x.shape().rank() - 1),
                               x.num_elements() / x.dim(0)},
                x.num_elements());
  });
}

void convert(ExecContext& ctx, const Tensor& x, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  if (x.dtype() == out.dtype()) {
    return backend.copy(x, out);
  }
  with_element(x.dtype(), [&](auto from) {
    with_element(out.dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (!std::is_same_v<From, To>) {
        launch_each(backend, Convert<From, To>{x.data<From>(), out.data<To>()},
                    x.num_elements());
      }
    });
  });
}

}  // namespace troupe::kernels::cuda
