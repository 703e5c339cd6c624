#include "kernels/core/varied.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {
namespace {

std::vector<float> varied(std::uint64_t seed, std::int64_t count) {
  Tensor out(Shape{count}, DType::f32);
  fill_varied(seed, out);
  const auto values = out.span<float>();
  return {values.begin(), values.end()};
}

TEST(Varied, NumbersAreTheSameOnEveryMachine) {
  // SplitMix64's own first outputs for its state mix(0) = 0, which are
  // 0xe220a8397b1dcdaf and 0x6e789e6aa1b965f4 in its authors' program.
  const std::vector<float> expected = {
      static_cast<float>(0x7b1dcdaf) * 0x1p-30F,
      -static_cast<float>(0x100000000 - 0xe220a839) * 0x1p-30F,
      -static_cast<float>(0x100000000 - 0xa1b965f4) * 0x1p-30F,
      static_cast<float>(0x6e789e6a) * 0x1p-30F};
  EXPECT_EQ(varied(0, 4), expected);
}

TEST(Varied, NumbersOfAnOddCountBeginThoseOfAnEvenOne) {
  for (const std::int64_t count : {0, 1, 2, 7}) {
    const std::vector<float> few = varied(5, count);
    const std::vector<float> more = varied(5, 8);
    EXPECT_EQ(few, std::vector<float>(more.begin(), more.begin() + count));
  }
}

TEST(Varied, NumbersFillTheirRangeWithEveryBitOfTheMantissa) {
  constexpr std::int64_t kCount = 1 << 16;
  double sum = 0.0;
  double squares = 0.0;
  std::uint32_t ones = 0;
  std::uint32_t zeros = 0;
  for (const float value : varied(1, kCount)) {
    ASSERT_LE(std::abs(value), 2.0F);
    sum += value;
    squares += double{value} * value;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    ones |= bits;
    zeros |= ~bits;
  }
  constexpr std::uint32_t kMantissa = 0x7fffff;
  EXPECT_EQ(ones & kMantissa, kMantissa);
  EXPECT_EQ(zeros & kMantissa, kMantissa);
  // Uniform: mean 0, variance 4/3; six standard errors.
  EXPECT_NEAR(sum / kCount, 0.0, 0.028);
  EXPECT_NEAR(squares / kCount, 4.0 / 3.0, 0.029);
}

TEST(Varied, NumbersOfAnotherSeedAreOthers) {
  std::set<float> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<float> values = varied(seed, 16);
    seen.insert(values.begin(), values.end());
  }
  EXPECT_GT(seen.size(), 1590U);
}

TEST(Varied, NumbersAreRefusedInAnotherType) {
  Tensor out(Shape{4}, DType::bf16);
  EXPECT_THROW(fill_varied(0, out), Error);
}

}  // namespace
}  // namespace troupe
