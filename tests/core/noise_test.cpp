#include "kernels/core/noise.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {
namespace {

std::vector<float> normals(const NoiseKey& key, std::int64_t count) {
  Tensor out(Shape{count}, DType::f32);
  fill_normal(key, out);
  const auto values = out.span<float>();
  return {values.begin(), values.end()};
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

double mean_of_product(const std::vector<float>& a,
                       const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum / static_cast<double>(a.size());
}

constexpr std::int64_t kMany = 1 << 20;
constexpr double kRootMany = 1024.0;

// The three "philox4x32 10" lines of Random123's tests/kat_vectors.
TEST(Philox, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                          {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                          {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Made by scripts/golden_noise.py, which has its own Philox and uses decimal
// arithmetic of 40 digits for the rest.
TEST(Noise, MatchesItsGoldenVectors) {
  EXPECT_EQ(bits_of(normals({}, 8)),
            (std::vector<std::uint32_t>{0x3f7dbb33, 0xbf6cb6b0, 0xbf1e1b9f,
                                        0xbef6d1b2, 0xbe1d5357, 0x3e392a6d,
                                        0x3f54ec98, 0x3e4a2da3}));
  EXPECT_EQ(bits_of(normals({.seed = 0x0123456789abcdefU,
                             .sample_index = 0xfedcba987654U,
                             .step_index = 999,
                             .purpose = NoisePurpose::step},
                            11)),
            (std::vector<std::uint32_t>{0x3eee7755, 0xbf964641, 0x3d4b99a9,
                                        0x3faf53f2, 0xbffa0c9e, 0xbf2beade,
                                        0x3e8c6a2d, 0xbe868cec, 0x3f52510b,
                                        0x3e80ed1a, 0xbe876127}));
}

TEST(Noise, ElementDoesNotDependOnTheSize) {
  const NoiseKey key{.seed = 5, .sample_index = 3, .step_index = 2};
  const auto all = bits_of(normals(key, 67));
  for (std::int64_t size = 0; size <= 67; ++size) {
    const auto some = bits_of(normals(key, size));
    ASSERT_EQ(some, std::vector<std::uint32_t>(all.begin(), all.begin() + size))
        << size;
  }
}

TEST(Noise, ShapeDoesNotMatter) {
  Tensor cube(Shape{3, 5, 7}, DType::f32);
  fill_normal({.seed = 1}, cube);
  Tensor line(Shape{105}, DType::f32);
  fill_normal({.seed = 1}, line);
  EXPECT_TRUE(bytes_equal(cube.reshape(Shape{105}), line));
}

TEST(Noise, HasTheMomentsOfAStandardNormal) {
  const auto x = normals({.seed = 20240501}, kMany);
  double sum = 0.0;
  double square = 0.0;
  double cube = 0.0;
  double fourth = 0.0;
  std::int64_t beyond_three = 0;
  for (const float value : x) {
    const double v = value;
    sum += v;
    square += v * v;
    cube += v * v * v;
    fourth += v * v * v * v;
    beyond_three += std::abs(v) > 3.0 ? 1 : 0;
  }
  // Five standard errors each: 1, sqrt 2, sqrt 15, sqrt 96 over sqrt n.
  EXPECT_NEAR(sum / kMany, 0.0, 5.0 / kRootMany);
  EXPECT_NEAR(square / kMany, 1.0, 5.0 * 1.42 / kRootMany);
  EXPECT_NEAR(cube / kMany, 0.0, 5.0 * 3.88 / kRootMany);
  EXPECT_NEAR(fourth / kMany, 3.0, 5.0 * 9.8 / kRootMany);
  EXPECT_NEAR(static_cast<double>(beyond_three) / kMany, 0.0026998,
              5.0 * 0.0519 / kRootMany);
}

TEST(Noise, NeighboursAreUncorrelated) {
  const auto x = normals({.seed = 77}, kMany);
  for (std::ptrdiff_t lag = 1; lag <= 5; ++lag) {
    const std::vector<float> a(x.begin(), x.end() - lag);
    const std::vector<float> b(x.begin() + lag, x.end());
    EXPECT_NEAR(mean_of_product(a, b), 0.0, 5.0 / kRootMany) << lag;
  }
}

TEST(Noise, EveryKeyFieldGivesAnotherUncorrelatedStream) {
  const NoiseKey base{.seed = 9, .sample_index = 4, .step_index = 6};
  const std::array others = {
      NoiseKey{.seed = 10, .sample_index = 4, .step_index = 6},
      NoiseKey{.seed = 9 + (1ULL << 32U), .sample_index = 4, .step_index = 6},
      NoiseKey{.seed = 9, .sample_index = 5, .step_index = 6},
      NoiseKey{.seed = 9, .sample_index = 4 + (1ULL << 32U), .step_index = 6},
      NoiseKey{.seed = 9, .sample_index = 4 + (1ULL << 47U), .step_index = 6},
      NoiseKey{.seed = 9, .sample_index = 4, .step_index = 7},
      NoiseKey{.seed = 9,
               .sample_index = 4,
               .step_index = 6,
               .purpose = NoisePurpose::step},
      NoiseKey{.seed = 9,
               .sample_index = 4,
               .step_index = 6,
               .purpose = NoisePurpose::weights}};
  const auto x = normals(base, kMany);
  for (const NoiseKey& other : others) {
    const auto y = normals(other, kMany);
    std::int64_t equal = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      equal += x[i] == y[i] ? 1 : 0;
    }
    EXPECT_LT(equal, 16);
    EXPECT_NEAR(mean_of_product(x, y), 0.0, 5.0 / kRootMany);
  }
}

TEST(Noise, UniformNumbersAreUniformAndDifferByEveryKeyField) {
  double sum = 0;
  double squares = 0;
  for (std::uint32_t step = 0; step < 10000; ++step) {
    const double u = uniform_number(
        {.seed = 7, .step_index = step, .purpose = NoisePurpose::acceptance});
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u / 10000;
    squares += u * u / 10000;
  }
  EXPECT_NEAR(sum, 1.0 / 2, 5 * 0.0029);      // 5 standard deviations
  EXPECT_NEAR(squares, 1.0 / 3, 5 * 0.0030);  // likewise
  const NoiseKey key{.seed = 7,
                     .sample_index = 2,
                     .step_index = 3,
                     .purpose = NoisePurpose::acceptance};
  const double u = uniform_number(key);
  EXPECT_EQ(u, uniform_number(key));
  for (int field = 0; field < 4; ++field) {
    NoiseKey other = key;
    other.seed += field == 0 ? 1 : 0;
    other.sample_index += field == 1 ? 1 : 0;
    other.step_index += field == 2 ? 1 : 0;
    other.purpose = field == 3 ? NoisePurpose::step : other.purpose;
    EXPECT_NE(u, uniform_number(other)) << field;
  }
  EXPECT_THROW((void)uniform_number({.sample_index = 1ULL << 48U}), Error);
}

TEST(Noise, EveryNormalIsFinite) {
  for (const float value : normals({.seed = 3}, kMany)) {
    ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(Noise, RefusesASampleIndexOf48BitsOrMore) {
  Tensor out(Shape{4}, DType::f32);
  try {
    fill_normal({.sample_index = 1ULL << 48U}, out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
  }
}

TEST(Noise, RefusesAnotherElementType) {
  Tensor out(Shape{4}, DType::bf16);
  EXPECT_THROW(fill_normal({}, out), Error);
}

}  // namespace
}  // namespace troupe
