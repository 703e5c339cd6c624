#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/tensor.h"
#include "kernels/cuda/devices.h"

// Shared by the tests of GPU operations. The tests run on emulated GPUs and, on
// a machine with a GPU, on the real GPU.

namespace troupe::kernels {

inline constexpr Device kGpu{DeviceKind::cuda, 0};

/// A test that needs `count` GPUs; a skip is reported.
class CudaTest : public testing::Test {
 protected:
  explicit CudaTest(std::size_t count = 1) : count_(count) {}
  void SetUp() override {
    const CudaDevices found = cuda_devices();
    if (found.devices.size() < count_) {
      GTEST_SKIP() << "needs " << count_ << " GPU(s), there are "
                   << found.devices.size() << ". " << found.why_none;
    }
  }

 private:
  std::size_t count_;
};

/// A copy on ctx's device.
[[nodiscard]] inline Tensor upload(ExecContext& ctx, const Tensor& host) {
  return clone(ctx, host);
}

/// A complete copy on the host.
[[nodiscard]] inline Tensor download(ExecContext& ctx, const Tensor& tensor) {
  return on_host(ctx, tensor);
}

/// On ctx's device, every byte 0xff: NaN in every float type. What an operation
/// forgets to write shows.
[[nodiscard]] inline Tensor poisoned(ExecContext& ctx, const Shape& shape,
                                     DType dtype) {
  Tensor host(shape, dtype);
  if (!host.empty()) {
    std::memset(host.bytes().data(), 0xff, host.num_bytes());
  }
  return upload(ctx, host);
}

[[nodiscard]] inline float value_of(const Tensor& host, std::int64_t i) {
  switch (host.dtype()) {
    case DType::f32:
      return host.data<float>()[i];
    case DType::bf16:
      return host.data<bfloat16>()[i].to_float();
    case DType::f16:
      return host.data<float16>()[i].to_float();
    default:
      ADD_FAILURE() << "not a float tensor";
      return 0;
  }
}

/// Host values from a normal distribution times `scale`, the same for equal
/// arguments.
[[nodiscard]] inline Tensor random(const Shape& shape, DType dtype,
                                   std::uint64_t seed, float scale = 1) {
  Tensor host(shape, dtype);
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal(0, scale);
  for (std::int64_t i = 0; i < host.num_elements(); ++i) {
    const float value = normal(bits);
    switch (dtype) {
      case DType::f32:
        host.data<float>()[i] = value;
        break;
      case DType::bf16:
        host.data<bfloat16>()[i] = bfloat16::from_float(value);
        break;
      case DType::f16:
        host.data<float16>()[i] = float16::from_float(value);
        break;
      default:
        ADD_FAILURE() << "not a float type";
        return host;
    }
  }
  return host;
}

/// Host values converted to another float type, rounded to nearest even.
[[nodiscard]] inline Tensor as(const Tensor& host, DType dtype) {
  Tensor converted(host.shape(), dtype);
  for (std::int64_t i = 0; i < host.num_elements(); ++i) {
    const float value = value_of(host, i);
    switch (dtype) {
      case DType::f32:
        converted.data<float>()[i] = value;
        break;
      case DType::bf16:
        converted.data<bfloat16>()[i] = bfloat16::from_float(value);
        break;
      default:
        converted.data<float16>()[i] = float16::from_float(value);
    }
  }
  return converted;
}

/// The largest error a stored element of this type may have, relative.
[[nodiscard]] inline double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 2e-3;
    default:
      return 2e-2;
  }
}

/// |got − want| ≤ tolerance · max(|want|, scale) for every element; NaN only
/// where NaN is wanted, infinities equal. Both on the host, of one shape.
inline void expect_close(const Tensor& got, const Tensor& want,
                         double tolerance, double scale = 1) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::int64_t i = 0; i < want.num_elements(); ++i) {
    const double a = value_of(got, i);
    const double b = value_of(want, i);
    if (std::isnan(b) || std::isinf(b)) {
      ASSERT_TRUE(std::isnan(b) ? std::isnan(a) : a == b)
          << "element " << i << ": got " << a << ", want " << b;
      continue;
    }
    ASSERT_LE(std::abs(a - b), tolerance * std::max(std::abs(b), scale))
        << "element " << i << " of " << to_string(want.shape()) << ": got " << a
        << ", want " << b;
  }
}

/// Every byte agrees.
inline void expect_same_bits(const Tensor& got, const Tensor& want) {
  EXPECT_TRUE(bytes_equal(got, want));
}

}  // namespace troupe::kernels
