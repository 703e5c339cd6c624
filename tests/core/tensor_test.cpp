#include "kernels/core/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62U;

template <typename Fn>
Errc code_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return Errc::internal;
}

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::from<float>(values, shape);
}

TEST(Shape, CountsElementsAndStrides) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3U);
  EXPECT_EQ(shape.num_elements(), 24);
  EXPECT_EQ(shape.stride(0), 24);
  EXPECT_EQ(shape.stride(1), 12);
  EXPECT_EQ(shape.stride(3), 1);
  EXPECT_EQ(to_string(shape), "[2, 3, 4]");
}

TEST(Shape, OfRankZeroHasOneElement) {
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Shape, DiffersByRankAndExtent) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2}) == (Shape{2, 0}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
}

TEST(Shape, RefusesNegativeExtents) {
  EXPECT_EQ(code_of([] { Shape{2, -1}; }), Errc::shape_mismatch);
}

TEST(Shape, RefusesMoreAxesThanItHolds) {
  EXPECT_EQ((Shape{1, 1, 1, 1, 1, 1}.rank()), Shape::kMaxRank);
  EXPECT_EQ(code_of([] { Shape{1, 1, 1, 1, 1, 1, 1}; }), Errc::shape_mismatch);
}

TEST(Shape, RefusesCountsThatOverflow) {
  EXPECT_EQ((Shape{kHuge}.num_elements()), kHuge);
  EXPECT_EQ(code_of([] { Shape{kHuge, 2}; }), Errc::shape_mismatch);
}

TEST(Shape, RefusesStridesThatOverflowBehindAZero) {
  EXPECT_EQ((Shape{0, kHuge}.num_elements()), 0);
  EXPECT_EQ((Shape{0, kHuge}.stride(1)), kHuge);
  EXPECT_EQ(code_of([] { Shape{0, kHuge, kHuge}; }), Errc::shape_mismatch);
}

TEST(Tensor, BeginsAlignedTo64Bytes) {
  for (const std::int64_t count : {0, 1, 3, 16, 1000}) {
    const Tensor tensor(Shape{count}, DType::f32);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64, 0U);
  }
}

TEST(Tensor, DefaultHoldsNothing) {
  const Tensor tensor;
  EXPECT_TRUE(tensor.empty());
  EXPECT_EQ(tensor.num_bytes(), 0U);
  EXPECT_TRUE(tensor.clone().empty());
  EXPECT_TRUE(tensor.slice(0, 0).empty());
}

TEST(Tensor, ZerosAreZero) {
  const Tensor tensor = Tensor::zeros(Shape{5, 7}, DType::i64);
  for (const std::int64_t value : tensor.span<std::int64_t>()) {
    EXPECT_EQ(value, 0);
  }
}

TEST(Tensor, FromCopiesAndChecksTheCount) {
  std::array values = {1.0F, 2.0F, 3.0F};
  const Tensor tensor = Tensor::from<float>(values, Shape{3});
  values[0] = 9.0F;
  EXPECT_EQ(tensor.span<float>()[0], 1.0F);
  EXPECT_EQ(code_of([&] { (void)Tensor::from<float>(values, Shape{4}); }),
            Errc::shape_mismatch);
}

TEST(Tensor, RefusesTheWrongElementType) {
  const Tensor tensor(Shape{3}, DType::f32);
  EXPECT_EQ(code_of([&] { (void)tensor.data<bfloat16>(); }), Errc::internal);
}

TEST(Tensor, RefusesSizesThatOverflowOrThatNoMachineHas) {
  EXPECT_EQ(code_of([] { Tensor(Shape{kHuge}, DType::i64); }),
            Errc::shape_mismatch);
  // 2^64 - 8 bytes: fits 64 bits, but not once it is rounded up.
  EXPECT_EQ(
      code_of([] { Tensor(Shape{(std::int64_t{1} << 61U) - 1}, DType::i64); }),
      Errc::out_of_memory);
}

TEST(Tensor, RefusesADeviceWithoutAllocator) {
  EXPECT_EQ(code_of([] {
              Tensor(Shape{1}, DType::f32, Device{DeviceKind::cuda, 1});
            }),
            Errc::unsupported);
}

TEST(Tensor, SliceAndItemShareElements) {
  Tensor tensor = counting(Shape{4, 3});
  Tensor rows = tensor.slice(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.span<float>()[0], 3.0F);
  rows.span<float>()[0] = -1.0F;
  EXPECT_EQ(tensor.span<float>()[3], -1.0F);
  const Tensor last = tensor.item(3);
  EXPECT_EQ(last.shape(), (Shape{3}));
  EXPECT_EQ(last.span<float>()[2], 11.0F);
  EXPECT_EQ(last.item(2).shape(), Shape{});
  EXPECT_EQ(last.item(2).span<float>()[0], 11.0F);
}

TEST(Tensor, SliceKeepsTheBufferAlive) {
  Tensor row;
  { row = counting(Shape{2, 2}).item(1); }
  EXPECT_EQ(row.span<float>()[1], 3.0F);
}

TEST(Tensor, SliceRefusesRangesOutside) {
  const Tensor tensor = counting(Shape{4, 3});
  EXPECT_TRUE(tensor.slice(4, 4).empty());
  EXPECT_EQ(code_of([&] { (void)tensor.slice(-1, 2); }), Errc::shape_mismatch);
  EXPECT_EQ(code_of([&] { (void)tensor.slice(2, 1); }), Errc::shape_mismatch);
  EXPECT_EQ(code_of([&] { (void)tensor.slice(2, 5); }), Errc::shape_mismatch);
  EXPECT_EQ(code_of([&] { (void)tensor.item(4); }), Errc::shape_mismatch);
}

TEST(Tensor, ReshapeKeepsElementsAndChecksTheCount) {
  const Tensor tensor = counting(Shape{4, 3});
  const Tensor other = tensor.reshape(Shape{2, 6});
  EXPECT_EQ(other.bytes().data(), tensor.bytes().data());
  EXPECT_EQ(code_of([&] { (void)tensor.reshape(Shape{5}); }),
            Errc::shape_mismatch);
}

TEST(Tensor, CloneIsDeepAndOnlyTheView) {
  Tensor tensor = counting(Shape{4, 3});
  const Tensor copy = tensor.slice(1, 2).clone();
  tensor.span<float>()[3] = -1.0F;
  EXPECT_EQ(copy.span<float>()[0], 3.0F);
  EXPECT_EQ(copy.num_bytes(), 12U);
}

TEST(BytesEqual, SeesShapeTypeAndEveryBit) {
  const auto one = [](float value) {
    return Tensor::from<float>(std::array{value}, Shape{1});
  };
  EXPECT_TRUE(bytes_equal(one(NAN), one(NAN)));
  EXPECT_FALSE(bytes_equal(one(0.0F), one(-0.0F)));
  EXPECT_FALSE(bytes_equal(one(1.0F), one(1.0F).reshape(Shape{1, 1})));
  EXPECT_FALSE(bytes_equal(Tensor::zeros(Shape{2}, DType::bf16),
                           Tensor::zeros(Shape{2}, DType::f16)));
  EXPECT_TRUE(bytes_equal(Tensor(Shape{0}, DType::f32), Tensor()));
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(bfloat16::from_float(1.0F).bits, 0x3f80);
  EXPECT_EQ(bfloat16::from_float(0x1.01p+0F).bits, 0x3f80);  // tie, down
  EXPECT_EQ(bfloat16::from_float(0x1.03p+0F).bits, 0x3f82);  // tie, up
  EXPECT_EQ(bfloat16::from_float(0x1.010002p+0F).bits, 0x3f81);
  EXPECT_EQ(bfloat16::from_float(-0.0F).bits, 0x8000);
  EXPECT_EQ(bfloat16::from_float(std::numeric_limits<float>::max()).bits,
            0x7f80);
}

TEST(Bfloat16, KeepsInfinityAndNan) {
  EXPECT_EQ(bfloat16::from_float(-INFINITY).bits, 0xff80);
  const auto low_nan = std::bit_cast<float>(0x7f800001U);
  EXPECT_TRUE(std::isnan(bfloat16::from_float(low_nan).to_float()));
}

TEST(Bfloat16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const bfloat16 value{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(value.to_float())) {
      ASSERT_EQ(bfloat16::from_float(value.to_float()).bits, bits);
    }
  }
}

TEST(Float16, EveryValueIsExact) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const float value = float16{static_cast<std::uint16_t>(bits)}.to_float();
    const std::uint32_t exponent = bits >> 10U & 0x1fU;
    const double mantissa = bits & 0x3ffU;
    double expected =
        exponent == 0
            ? std::ldexp(mantissa, -24)
            : std::ldexp(1024.0 + mantissa, static_cast<int>(exponent) - 25);
    if (exponent == 0x1fU) {
      expected = mantissa == 0.0 ? INFINITY : NAN;
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000U) != 0);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value));
    } else {
      ASSERT_EQ(std::abs(value), expected);
    }
  }
}

/// The half that is nearest to `value`, ties to even, found by trying all.
std::uint16_t nearest_half(float value) {
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits <= 0x7c00U; ++bits) {
    // Infinity stands where the next finite number would.
    const double half =
        bits == 0x7c00U
            ? 65536.0
            : static_cast<double>(
                  float16{static_cast<std::uint16_t>(bits)}.to_float());
    const double d = std::fabs(half - std::fabs(static_cast<double>(value)));
    if (d < distance || (d == distance && bits % 2 == 0)) {
      distance = d;
      best = static_cast<std::uint16_t>(bits);
    }
  }
  return static_cast<std::uint16_t>(best | (std::signbit(value) ? 0x8000 : 0));
}

TEST(Float16, KeepsEveryHalf) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const float16 half{static_cast<std::uint16_t>(bits)};
    const float value = half.to_float();
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float16::from_float(value).to_float()));
    } else {
      EXPECT_EQ(float16::from_float(value).bits, bits);
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  const float edges[] = {0x1.002p+0F,  0x1.006p+0F, 65519.0F, 65520.0F,
                         0x1p-25F,     0x1.8p-25F,  0x1p-26F, 0x1.ffep-15F,
                         0x1.fffp-15F, -0.1F,       1e-9F,    3.14159274F};
  for (const float value : edges) {
    EXPECT_EQ(float16::from_float(value).bits, nearest_half(value)) << value;
  }
  EXPECT_EQ(float16::from_float(1e30F).bits, 0x7c00);
}

}  // namespace
}  // namespace troupe
