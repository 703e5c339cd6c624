#include "kernels/core/polynomials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace troupe {
namespace {

TEST(Polynomials, LogarithmIsAccurate) {
  for (double x = 0x1p-33; x < 4.0; x *= 1.0009765625) {
    const double expected = std::log(x);
    ASSERT_NEAR(detail::log_positive(x), expected,
                4e-16 * std::abs(expected) + 1e-300)
        << x;
  }
  EXPECT_EQ(detail::log_positive(1.0), 0.0);
}

TEST(Polynomials, SineAndCosineAreAccurate) {
  for (int i = 0; i <= 65536; ++i) {
    const double x = 8.0 * i / 65536.0;
    const detail::SinCos v = detail::sin_cos(x);
    ASSERT_NEAR(v.sin, std::sin(x), 3e-16) << x;
    ASSERT_NEAR(v.cos, std::cos(x), 3e-16) << x;
  }
}

TEST(Polynomials, TurnIsAccurateAtEveryQuadrantsEdge) {
  for (const std::uint32_t edge :
       {0U, 0x20000000U, 0x40000000U, 0x60000000U, 0x80000000U, 0xa0000000U,
        0xc0000000U, 0xe0000000U}) {
    for (const std::uint32_t turn : {edge - 1U, edge, edge + 1U}) {
      const double x = (turn + 0.5) * (6.283185307179586 / 4294967296.0);
      const detail::SinCos v = detail::sin_cos_turn(turn);
      ASSERT_NEAR(v.sin, std::sin(x), 2e-15) << turn;
      ASSERT_NEAR(v.cos, std::cos(x), 2e-15) << turn;
    }
  }
}

TEST(Polynomials, LogarithmTakesAnyNumber) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (double x = 0x1p-1074; x < 1e300; x *= 3.5) {
    const double expected = std::log(x);
    ASSERT_NEAR(detail::log_of_any(x), expected,
                4e-16 * std::abs(expected) + 1e-300)
        << x;
  }
  EXPECT_EQ(detail::log_of_any(0.0), -kInf);
  EXPECT_EQ(detail::log_of_any(-0.0), -kInf);
  EXPECT_EQ(detail::log_of_any(kInf), kInf);
  EXPECT_TRUE(std::isnan(detail::log_of_any(-1.0)));
  EXPECT_TRUE(std::isnan(detail::log_of_any(std::nan(""))));
}

/// The distance in units in the last place of a float.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return std::abs(got - want) / std::ldexp(1.0, exponent - 23);
}

TEST(Polynomials, ExponentialIsAccurateOverItsRange) {
  // Every 1009th float; all of them: at most 0.94 units (2026, by hand).
  constexpr std::uint32_t kHundredAndFour = 0x42d00000;
  for (const std::uint32_t sign : {0U, 0x80000000U}) {
    for (std::uint32_t bits = 0; bits <= kHundredAndFour; bits += 1009) {
      const auto x = std::bit_cast<float>(bits | sign);
      const double want = std::exp(static_cast<double>(x));
      const float got = detail::exp_float(x);
      if (std::isinf(static_cast<float>(want))) {
        ASSERT_EQ(got, std::numeric_limits<float>::infinity()) << x;
      } else {
        ASSERT_LT(ulps(got, want), 1.0) << x;
      }
    }
  }
}

TEST(Polynomials, ExponentialTakesAnyNumber) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(detail::exp_float(0.0F), 1.0F);
  EXPECT_EQ(detail::exp_float(-0.0F), 1.0F);
  EXPECT_EQ(detail::exp_float(std::numeric_limits<float>::denorm_min()), 1.0F);
  for (const float x : {88.7228390F, 88.7228470F, 89.0F, kMax, kInf}) {
    const double want = std::exp(static_cast<double>(x));
    EXPECT_EQ(std::isinf(detail::exp_float(x)), want > kMax) << x;
  }
  for (const float x : {-104.0F, -1e30F, -kMax, -kInf}) {
    EXPECT_EQ(detail::exp_float(x), 0.0F) << x;
  }
  // Denormal results, down to the last.
  for (float x = -87.3F; x > -104.5F; x -= 0.001F) {
    ASSERT_LT(ulps(detail::exp_float(x), std::exp(static_cast<double>(x))), 1.0)
        << x;
  }
  EXPECT_TRUE(std::isnan(detail::exp_float(std::nanf(""))));
}

TEST(Polynomials, ExponentialHasTheseBits) {
  // Another number is another execution class.
  constexpr float kInputs[] = {-100.0F, -87.5F, -9.21F,  -1.0F,
                               -0.3F,   1e-4F,  0.6931F, 88.0F};
  constexpr std::uint32_t kBits[] = {0x0000001b, 0x006cb2bc, 0x38d1c95e,
                                     0x3ebc5ab2, 0x3f3da643, 0x3f800347,
                                     0x3ffffce8, 0x7ef882b7};
  for (std::size_t i = 0; i < std::size(kInputs); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(detail::exp_float(kInputs[i])),
              kBits[i])
        << kInputs[i];
  }
}

}  // namespace
}  // namespace troupe
