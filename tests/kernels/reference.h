#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/tensor.h"
#include "kernels/linear.h"

namespace troupe::kernels {

/// A tensor between two strips of guard bytes, its elements poisoned with NaN.
class Guarded {
 public:
  /// `elements` of them move the first away from 64-byte alignment.
  Guarded(const Shape& shape, DType dtype, std::int64_t elements = 0)
      : bytes_(shape.num_elements() *
               static_cast<std::int64_t>(size_of(dtype))),
        shift_(elements * static_cast<std::int64_t>(size_of(dtype))),
        memory_({bytes_ + 2 * kGuard + shift_}, DType::u8) {
    std::byte* all = memory_.bytes().data();
    std::memset(all, kPattern, memory_.num_bytes());
    std::memset(all + kGuard + shift_, 0xff, static_cast<std::size_t>(bytes_));
    tensor = Tensor(
        std::shared_ptr<std::byte>(memory_.owner(), all + kGuard + shift_),
        shape, dtype);
  }

  [[nodiscard]] bool intact() const {
    const auto* all =
        reinterpret_cast<const unsigned char*>(memory_.bytes().data());
    const std::int64_t begin = kGuard + shift_;
    for (std::int64_t i = 0; i < begin; ++i) {
      if (all[i] != kPattern) {
        return false;
      }
    }
    for (std::int64_t i = begin + bytes_; i < begin + bytes_ + kGuard; ++i) {
      if (all[i] != kPattern) {
        return false;
      }
    }
    return true;
  }

  Tensor tensor;

 private:
  static constexpr std::int64_t kGuard = 128;
  static constexpr unsigned char kPattern = 0xcd;
  std::int64_t bytes_;
  std::int64_t shift_;
  Tensor memory_;
};

/// Element `i` of an f32, bf16 or f16 tensor.
inline double value_at(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::bf16:
      return tensor.data<bfloat16>()[i].to_float();
    case DType::f16:
      return tensor.data<float16>()[i].to_float();
    default:
      return tensor.data<float>()[i];
  }
}

inline void set_value(Tensor& tensor, std::int64_t i, double value) {
  if (tensor.dtype() == DType::bf16) {
    tensor.data<bfloat16>()[i] =
        bfloat16::from_float(static_cast<float>(value));
  } else {
    tensor.data<float>()[i] = static_cast<float>(value);
  }
}

inline std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    values.push_back(value_at(tensor, i));
  }
  return values;
}

/// Uniform in [−scale, scale], the same for the same seed.
inline Tensor random_tensor(const Shape& shape, DType dtype, unsigned seed,
                            double scale = 1.0) {
  Tensor tensor(shape, dtype);
  std::mt19937 engine(seed);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double unit = static_cast<double>(engine()) / 4294967296.0;
    set_value(tensor, i, (2 * unit - 1) * scale);
  }
  return tensor;
}

/// Relative error of rounding to nearest: bf16 keeps 8 bits, f32 24.
inline double unit_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
}

/// |got − expected| ≤ relative·|expected| + absolute, for every element.
inline void expect_near(const Tensor& got, const std::vector<double>& expected,
                        double relative, double absolute) {
  ASSERT_EQ(static_cast<std::size_t>(got.num_elements()), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = value_at(got, static_cast<std::int64_t>(i));
    const double bound = relative * std::abs(expected[i]) + absolute;
    ASSERT_TRUE(std::abs(value - expected[i]) <= bound)
        << "element " << i << " of " << to_string(got.shape()) << ": got "
        << value << ", expected " << expected[i] << " ± " << bound;
  }
}

/// The compute types of this CPU.
inline std::vector<DType> compute_types() {
  std::vector<DType> types{DType::f32};
  if (supports(DType::bf16)) {
    types.push_back(DType::bf16);
  }
  return types;
}

inline double apply(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_tanh: {
      // x·(1 + tanh u)/2 without its cancellation.
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::mish:
      // tanh(ln(1 + e^x)) by its definition; e^x alone where it is small.
      return x * std::tanh(x > 40 ? x : std::log1p(std::exp(x)));
    case Activation::gelu_sigmoid:
      return x / (1 + std::exp(-1.702 * x));
  }
  return 0;
}

/// Largest relative error of an activation of x, before it is stored as `to`;
/// from the errors that kernels/cpu/vector_math-inl.h states for its parts.
inline double activation_limit(Activation activation, double x, DType to) {
  constexpr double u = 0x1p-24;
  const bool coarse = to == DType::bf16;
  // x / (1 + e^y): e^y, the sum, its reciprocal and the product.
  const double sigmoid = coarse ? 1e-4 + 1.3e-4 : 3e-7 + u + 1e-7 + u;
  switch (activation) {
    case Activation::none:
      return 0;
    case Activation::silu:
      // y is exact but for the change to base 2, whose error e^y multiplies
      // by y.
      return sigmoid + (coarse ? 2 * u * std::abs(x) : 0);
    case Activation::gelu_tanh: {
      // Two constants, x², the sum and the product with x err by u each in y,
      // and that counts as far as e^y does beside 1.
      const double y = 2 * std::sqrt(2 / M_PI) *
                       (std::abs(x) + 0.044715 * std::pow(std::abs(x), 3));
      const double share = x < 0 ? 1 : std::exp(-y) / (1 + std::exp(-y));
      return sigmoid + 5 * u * y * share;
    }
    case Activation::gelu_erf:
      // Half of the worst case 3e-7 + 15u: t errs by 3u, which Q·t multiplies
      // by at most 2.3; Q 2u, the exponential 3e-7 + 2u, four products.
      return 6e-7;
    case Activation::relu:
      return 0;
    case Activation::mish:
      // The exponential's error counts at most once in n / (n + 2), then five
      // products, sums and a quotient.
      return 3e-7 + 5 * u;
    case Activation::gelu_sigmoid: {
      // The constant and the product err by u each in y.
      const double y = 1.702 * std::abs(x);
      const double share = x < 0 ? 1 : std::exp(-y) / (1 + std::exp(-y));
      return sigmoid + 2 * u * y * share;
    }
  }
  return 0;
}

inline constexpr std::initializer_list<Activation> kActivations = {
    Activation::none,        Activation::silu, Activation::gelu_tanh,
    Activation::gelu_erf,    Activation::relu, Activation::mish,
    Activation::gelu_sigmoid};

}  // namespace troupe::kernels
