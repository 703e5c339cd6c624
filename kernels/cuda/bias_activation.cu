#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bias_activation.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/units.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Elements that a thread handles: two units of f32, one of a 16-bit type.
constexpr int kEach = 8;

/// a / b for numbers from 0 on: the GPU divides 64 bits slowly.
TROUPE_DEVICE std::int64_t divided(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) {
    return std::int64_t{static_cast<std::uint32_t>(a) /
                        static_cast<std::uint32_t>(b)};
  }
  return a / b;
}

/// Where a thread works: `kEach` columns of a row, from `column` on.
struct Place {
  std::int64_t row;
  std::int64_t column;
};

/// Threads walk the rows of `width` columns, the last of a row may have fewer
/// than `kEach` of them.
TROUPE_DEVICE Place place_of(std::int64_t index, std::int64_t width) {
  const std::int64_t per_row = (width + kEach - 1) / kEach;
  const std::int64_t row = divided(index, per_row);
  return {row, (index - row * per_row) * kEach};
}

[[nodiscard]] std::int64_t blocks_over(std::int64_t rows, std::int64_t width,
                                       int threads) {
  return blocks_for(rows * ((width + kEach - 1) / kEach), threads);
}

/// `count` of kEach values; all of them by units if kPacked.
template <bool kPacked, typename T>
TROUPE_DEVICE void load_each(const T* from, int count, float (&values)[kEach]) {
  if constexpr (kPacked) {
    constexpr int kStep = kPerLoad<T>;
    TROUPE_UNROLL
    for (int i = 0; i < kEach; i += kStep) {
      const auto unit = load<kStep>(from + i);
      TROUPE_UNROLL
      for (int j = 0; j < kStep; ++j) {
        values[i + j] = to_float(unit.values[j]);
      }
    }
  } else {
    // Not up to `count`: the values would live in memory.
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      if (i < count) {
        values[i] = to_float(from[i]);
      }
    }
  }
}

template <bool kPacked, typename T>
TROUPE_DEVICE void store_each(const float (&values)[kEach], int count, T* to) {
  if constexpr (kPacked) {
    constexpr int kStep = kPerLoad<T>;
    TROUPE_UNROLL
    for (int i = 0; i < kEach; i += kStep) {
      Unit<T, kStep> unit;
      TROUPE_UNROLL
      for (int j = 0; j < kStep; ++j) {
        unit.values[j] = from_float<T>(values[i + j]);
      }
      store_whole<kStep>(unit, to + i);
    }
  } else {
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      if (i < count) {
        to[i] = from_float<T>(values[i]);
      }
    }
  }
}

TROUPE_DEVICE int columns_left(std::int64_t column, std::int64_t width) {
  return width - column < kEach ? static_cast<int>(width - column) : kEach;
}

template <typename To, bool kPacked>
struct ActivateProduct {
  static constexpr const char* kName = "activate product";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;

  const float* product;
  const float* bias;  // or null
  To* out;
  std::int64_t rows;
  std::int64_t width;
  Activation activation;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const auto [row, column] =
        place_of(lane.block() * kThreads + lane.thread(), width);
    if (row >= rows) {
      return;
    }
    const int count = columns_left(column, width);
    float values[kEach] = {};
    float biases[kEach] = {};
    load_each<kPacked>(product + row * width + column, count, values);
    if (bias != nullptr) {
      load_each<kPacked>(bias + column, count, biases);
    }
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const float sum = bias != nullptr ? add(values[i], biases[i]) : values[i];
      values[i] = activated(sum, activation);
    }
    store_each<kPacked>(values, count, out + row * width + column);
  }
};

/// out = a · activation(b) for rows of x that are a and b side by side.
template <typename From, typename To, bool kPacked>
struct ActivateGated {
  static constexpr const char* kName = "activate gated";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr bool kCoarse = sizeof(To) == 2;

  const From* x;
  To* out;
  std::int64_t rows;
  std::int64_t width;
  Activation activation;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const auto [row, column] =
        place_of(lane.block() * kThreads + lane.thread(), width);
    if (row >= rows) {
      return;
    }
    const int count = columns_left(column, width);
    const From* from = x + 2 * row * width + column;
    float values[kEach] = {};
    float gates[kEach] = {};
    load_each<kPacked>(from, count, values);
    load_each<kPacked>(from + width, count, gates);
    activate_all<kCoarse>(gates, activation);
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      values[i] = multiply(values[i], gates[i]);
    }
    store_each<kPacked>(values, count, out + row * width + column);
  }
};

template <bool kPacked>
struct AddProduct {
  static constexpr const char* kName = "add product";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;

  const float* product;
  const float* bias;  // or null
  const float* gate;  // of the first item, or null
  std::int64_t gate_stride;
  float* residual;
  std::int64_t rows;
  std::int64_t rows_per_item;
  std::int64_t width;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const auto [row, column] =
        place_of(lane.block() * kThreads + lane.thread(), width);
    if (row >= rows) {
      return;
    }
    const int count = columns_left(column, width);
    float values[kEach] = {};
    float biases[kEach] = {};
    float gates[kEach] = {1, 1, 1, 1, 1, 1, 1, 1};
    float sums[kEach] = {};
    load_each<kPacked>(product + row * width + column, count, values);
    if (gate != nullptr) {
      load_each<kPacked>(
          gate + divided(row, rows_per_item) * gate_stride + column, count,
          gates);
    }
    load_each<kPacked>(residual + row * width + column, count, sums);
    if (bias != nullptr) {
      load_each<kPacked>(bias + column, count, biases);
    }
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const float sum = bias != nullptr ? add(values[i], biases[i]) : values[i];
      sums[i] = add(sums[i], multiply(gates[i], sum));
    }
    store_each<kPacked>(sums, count, residual + row * width + column);
  }
};

const float* pointer(const Tensor& tensor) {
  return tensor.empty() ? nullptr : tensor.data<float>();
}

/// Whether threads may move their kEach elements by units.
template <typename T>
bool aligned(const T* first, std::int64_t stride) {
  return first == nullptr ||
         (is_aligned<kPerLoad<T>>(first) && stride % kEach == 0);
}

/// Calls fn with std::true_type or std::false_type.
template <typename Fn>
void with_flag(bool flag, const Fn& fn) {
  if (flag) {
    fn(std::true_type{});
  } else {
    fn(std::false_type{});
  }
}

}  // namespace

void activate_product(Backend& backend, const Tensor& product,
                      const Tensor& bias, Activation activation, Tensor& out) {
  const std::int64_t width = product.dim(product.shape().rank() - 1);
  const std::int64_t rows = product.num_elements() / width;
  const auto* from = product.data<float>();
  const float* biases = pointer(bias);
  with_element(out.dtype(), [&](auto element) {
    using To = decltype(element);
    To* to = out.data<To>();
    const bool packed = aligned(from, width) && aligned(biases, width) &&
                        aligned(static_cast<const To*>(to), width);
    with_flag(packed, [&](auto flag) {
      using Kernel = ActivateProduct<To, decltype(flag)::value>;
      launch(backend, Kernel{from, biases, to, rows, width, activation},
             {blocks_over(rows, width, Kernel::kThreads)});
    });
  });
}

void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out) {
  if (out.empty()) {
    return;
  }
  Backend& backend = Backend::of(ctx);
  const std::int64_t width = out.dim(out.shape().rank() - 1);
  const std::int64_t rows = out.num_elements() / width;
  with_element(x.dtype(), [&]<typename From>(From) {
    with_element(out.dtype(), [&]<typename To>(To) {
      const auto* from = x.data<From>();
      auto* to = out.data<To>();
      const bool packed =
          aligned(from, width) && aligned(static_cast<const To*>(to), width);
      with_flag(packed, [&](auto flag) {
        using Kernel = ActivateGated<From, To, decltype(flag)::value>;
        launch(backend, Kernel{from, to, rows, width, activation},
               {blocks_over(rows, width, Kernel::kThreads)});
      });
    });
  });
}

void add_product(Backend& backend, const Tensor& product, const Tensor& bias,
                 const Tensor& modulation, std::int64_t gate_column,
                 Tensor& residual) {
  const std::int64_t width = residual.dim(2);
  const std::int64_t rows = residual.dim(0) * residual.dim(1);
  const auto* from = product.data<float>();
  const float* biases = pointer(bias);
  const float* gate = pointer(modulation);
  std::int64_t gate_stride = 0;
  if (gate != nullptr) {
    gate += gate_column;
    gate_stride = modulation.dim(1);
  }
  auto* to = residual.data<float>();
  // Gates of another item only have to start at 16 bytes.
  const bool packed = aligned(from, width) && aligned(biases, width) &&
                      aligned(static_cast<const float*>(to), width) &&
                      (gate == nullptr || is_aligned<kPerLoad<float>>(gate)) &&
                      gate_stride % kPerLoad<float> == 0;
  with_flag(packed, [&](auto flag) {
    using Kernel = AddProduct<decltype(flag)::value>;
    launch(backend,
           Kernel{from, biases, gate, gate_stride, to, rows, residual.dim(1),
                  width},
           {blocks_over(rows, width, Kernel::kThreads)});
  });
}

}  // namespace troupe::kernels::cuda
