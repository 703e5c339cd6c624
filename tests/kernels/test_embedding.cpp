#include "kernels/core/error.h"
#include "kernels/embedding.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

TEST(TimestepEmbedding, IsCosThenSinOfGeometricFrequencies) {
  for (const double shift : {0.0, 1.0}) {
    for (const std::int64_t dim : {4, 9, 256}) {
      const double timesteps[] = {0, 1, 499, 999};
      ExecContext ctx;
      Guarded out({4, dim}, DType::f32);
      timestep_embedding(ctx, timesteps, shift, 10000, out.tensor);
      EXPECT_TRUE(out.intact());
      const std::int64_t half = dim / 2;
      std::vector<double> expected;
      for (const double t : timesteps) {
        for (std::int64_t part = 0; part < 2; ++part) {
          for (std::int64_t i = 0; i < half; ++i) {
            const double f =
                std::exp(-std::log(10000.0) * static_cast<double>(i) /
                         (static_cast<double>(half) - shift));
            expected.push_back(part == 0 ? std::cos(t * f) : std::sin(t * f));
          }
        }
        if (dim % 2 != 0) {
          expected.push_back(0);
        }
      }
      // f32 frequencies times 999 leave about 1e-4 of the angle.
      expect_near(out.tensor, expected, 0, 3e-4);
    }
  }
}

TEST(TimestepEmbedding, HasGoldenValues) {
  // torch 2, get_timestep_embedding(999, 256, flip_sin_to_cos=True,
  // downscale_freq_shift=1).
  const double timesteps[] = {999};
  ExecContext ctx;
  Tensor out({1, 256}, DType::f32);
  timestep_embedding(ctx, timesteps, 1, 10000, out);
  const std::pair<std::int64_t, double> golden[] = {
      {0, 0.999649823},    {1, 0.699215829},    {5, -0.645890594},
      {64, -0.978142917},  {127, 0.995014131},  {128, -0.0264607519},
      {129, -0.714910626}, {133, -0.763429999}, {192, -0.207933873},
      {255, 0.0997339115}};
  for (const auto& [index, value] : golden) {
    EXPECT_NEAR(value_at(out, index), value, 1e-6) << index;
  }
}

TEST(TimestepEmbedding, RefusesWhatDoesNotFit) {
  const double timesteps[] = {1, 2};
  ExecContext ctx;
  Tensor out({3, 8}, DType::f32);
  EXPECT_THROW(timestep_embedding(ctx, timesteps, 0, 10000, out), Error);
  Tensor narrow({2, 2}, DType::f32);
  EXPECT_THROW(timestep_embedding(ctx, timesteps, 1, 10000, narrow), Error);
}

TEST(Sincos2d, PutsColumnsFirstAndRowsSecond) {
  const Tensor table = sincos_2d(8, 2, 3, 3, 1.0);
  ASSERT_EQ(table.shape(), Shape({6, 8}));
  std::vector<double> expected;
  for (std::int64_t y = 0; y < 2; ++y) {
    for (std::int64_t x = 0; x < 3; ++x) {
      const double row = static_cast<double>(static_cast<float>(y) /
                                             static_cast<float>(2.0 / 3.0));
      for (const double position : {static_cast<double>(x), row}) {
        expected.push_back(std::sin(position));
        expected.push_back(std::sin(position * 0.01));
        expected.push_back(std::cos(position));
        expected.push_back(std::cos(position * 0.01));
      }
    }
  }
  expect_near(table, expected, 1e-7, 1e-8);
}

TEST(Sincos2d, RefusesImpossibleTables) {
  EXPECT_THROW((void)sincos_2d(6, 2, 2, 2, 1), Error);
  EXPECT_THROW((void)sincos_2d(8, 2, 2, 0, 1), Error);
  EXPECT_THROW((void)sincos_2d(8, 2, 2, 2, 0), Error);
  EXPECT_THROW((void)sincos_2d(8, -1, 2, 2, 1), Error);
}

}  // namespace
}  // namespace troupe::kernels
