#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

/// Logarithm, sine and cosine in double and the exponential in float, made of
/// IEEE additions, multiplications and divisions in a fixed order. So every
/// machine computes the same bits; the functions of C libraries differ. Errors
/// are a few units in the last place.
namespace troupe::detail {

struct SinCos {
  double sin = 0.0;
  double cos = 1.0;
};

/// Natural logarithm of a positive normal number.
[[nodiscard]] constexpr double log_positive(double x) noexcept {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); s = (m - 1) / (m + 1);
  // log m = 2 s (1 + s^2/3 + s^4/5 + ...).
  constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits: e * high exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr std::array kTerms = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                                 1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,
                                 1.0 / 5,  1.0 / 3};
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto e = static_cast<int>(bits >> 52U) - 1023;
  double m =
      std::bit_cast<double>((bits & 0xfffffffffffffU) | 0x3ff0000000000000U);
  if (m >= kSqrt2) {
    m *= 0.5;
    ++e;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double sum = 0.0;
  for (const double term : kTerms) {
    sum = (sum + term) * s2;
  }
  const double log_m = 2.0 * s + 2.0 * s * sum;
  return e * kLn2High + (e * kLn2Low + log_m);
}

/// Natural logarithm of any number: -inf of 0, NaN of what lies below.
[[nodiscard]] constexpr double log_of_any(double x) noexcept {
  using Limits = std::numeric_limits<double>;
  if (!(x > 0.0)) {
    return x == 0.0 ? -Limits::infinity() : Limits::quiet_NaN();
  }
  if (x == Limits::infinity()) {
    return x;
  }
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  return x < Limits::min() ? log_positive(x * 0x1p54) - 54.0 * kLn2
                           : log_positive(x);
}

/// Products and sums of floats, each rounded by itself: a compiler that may
/// join the two into a fused multiply-add needs a type of its own.
struct RoundEach {
  static constexpr float multiply(float a, float b) noexcept { return a * b; }
  static constexpr float add(float a, float b) noexcept { return a + b; }
};

/// 2^n, -126 <= n <= 127.
[[nodiscard]] constexpr float power_of_two(int n) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23U);
}

/// e^x of any number, rounded to float: at most 1 unit in the last place off,
/// denormal results included.
template <typename Rounding = RoundEach>
[[nodiscard]] constexpr float exp_float(float x) noexcept {
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kLn2High = 0x1.62e4p-1F;  // 15 bits: n * high is exact
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  constexpr float kZeroBelow = -104.0F;
  constexpr float kInfiniteFrom = 89.0F;
  // 1/7! ... 1/2!
  constexpr float kTerms[] = {1.0F / 5040, 1.0F / 720, 1.0F / 120,
                              1.0F / 24,   1.0F / 6,   1.0F / 2};
  if (x != x) {
    return x;
  }
  if (x < kZeroBelow) {
    return 0.0F;
  }
  if (x >= kInfiniteFrom) {
    return std::numeric_limits<float>::infinity();
  }
  // x = n ln 2 + r with |r| <= ln 2 / 2.
  const float turns = Rounding::multiply(x, kLog2E);
  const int n =
      static_cast<int>(Rounding::add(turns, turns < 0.0F ? -0.5F : 0.5F));
  const auto whole = static_cast<float>(n);
  const float exact = Rounding::add(x, Rounding::multiply(whole, -kLn2High));
  const float low = Rounding::multiply(whole, -kLn2Low);
  const float r = Rounding::add(exact, low);
  float sum = 0.0F;
  for (const float term : kTerms) {
    sum = Rounding::add(Rounding::multiply(sum, r), term);
  }
  const float rest =
      Rounding::add(low, Rounding::multiply(Rounding::multiply(r, r), sum));
  const float power = Rounding::add(1.0F, Rounding::add(exact, rest));
  // In two steps: 2^n may be out of range where the result is not.
  const int half = n / 2;
  return Rounding::multiply(Rounding::multiply(power, power_of_two(half)),
                            power_of_two(n - half));
}

/// Sine and cosine for |x| <= pi/4, by their Taylor series.
[[nodiscard]] constexpr SinCos sin_cos_octant(double x) noexcept {
  constexpr std::array kSin = {-1.0 / 1307674368000.0,
                               1.0 / 6227020800.0,
                               -1.0 / 39916800.0,
                               1.0 / 362880.0,
                               -1.0 / 5040.0,
                               1.0 / 120.0,
                               -1.0 / 6.0};
  constexpr std::array kCos = {1.0 / 20922789888000.0,
                               -1.0 / 87178291200.0,
                               1.0 / 479001600.0,
                               -1.0 / 3628800.0,
                               1.0 / 40320.0,
                               -1.0 / 720.0,
                               1.0 / 24.0,
                               -0.5};
  const double x2 = x * x;
  double sin_sum = 0.0;
  for (const double term : kSin) {
    sin_sum = (sin_sum + term) * x2;
  }
  double cos_sum = 0.0;
  for (const double term : kCos) {
    cos_sum = (cos_sum + term) * x2;
  }
  return {x + x * sin_sum, 1.0 + cos_sum};
}

/// Turns the values at x into those at x + quadrant * pi/2.
[[nodiscard]] constexpr SinCos rotate(const SinCos& v,
                                      unsigned quadrant) noexcept {
  switch (quadrant & 3U) {
    case 0:
      return v;
    case 1:
      return {v.cos, -v.sin};
    case 2:
      return {-v.sin, -v.cos};
    default:
      return {-v.cos, v.sin};
  }
}

/// Sine and cosine for 0 <= x <= 8. Multiples of pi/2 are subtracted in two
/// parts.
[[nodiscard]] constexpr SinCos sin_cos(double x) noexcept {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPiHigh =
      0x1.921fb54400000p+0;  // 33 bits: exact times 5
  constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;
  const double turns = x * kTwoOverPi + 0.5;
  const auto quadrant = static_cast<unsigned>(turns);
  const double rest = (x - quadrant * kHalfPiHigh) - quadrant * kHalfPiLow;
  return rotate(sin_cos_octant(rest), quadrant);
}

/// Sine and cosine of the angle (turn + 1/2) / 2^32 of a full turn. The
/// reduction is exact.
[[nodiscard]] constexpr SinCos sin_cos_turn(std::uint32_t turn) noexcept {
  constexpr double kUnit = 0x1.921fb54442d18p-30;  // 2 pi / 2^32
  const std::uint32_t quadrant = (turn + 0x20000000U) >> 30U;
  const auto rest = static_cast<std::int32_t>(turn - (quadrant << 30U));
  return rotate(sin_cos_octant((rest + 0.5) * kUnit), quadrant);
}

}  // namespace troupe::detail
