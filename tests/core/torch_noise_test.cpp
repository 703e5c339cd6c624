#include "kernels/core/torch_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {
namespace {

constexpr double kTolerance = 1e-6;

std::vector<float> draw(TorchGenerator& generator, const Shape& shape) {
  Tensor out(shape, DType::f32);
  generator.fill_normal(out);
  const auto values = out.span<float>();
  return {values.begin(), values.end()};
}

void expect_near(const std::vector<float>& values,
                 const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], kTolerance) << i;
  }
}

// Golden values: PyTorch 1.13.0 and 2.15.0 on an AVX-512 CPU, which agree in
// every bit, by
//   g = torch.Generator().manual_seed(SEED)
//   print([float(v) for v in torch.randn(SHAPE, generator=g).flatten()])

TEST(TorchGenerator, MatchesSixteenDraws) {
  TorchGenerator generator(42);
  expect_near(draw(generator, Shape{16}),
              {1.9269152879714966, 1.4872840642929077, 0.9007171988487244,
               -2.1055209636688232, 0.6784184575080872, -1.2345448732376099,
               -0.04306747764348984, -1.6046669483184814, -0.7521352767944336,
               1.6487230062484741, -0.3924786448478699, -1.4036071300506592,
               -0.7278813123703003, -0.5594301819801331, -0.7688388824462891,
               0.7624453902244568});
}

TEST(TorchGenerator, MatchesFewerThanSixteenDraws) {
  TorchGenerator generator(7);
  expect_near(draw(generator, Shape{5}),
              {-0.1467950940132141, 0.7861412763595581, 0.9468216300010681,
               -1.1143440008163452, 1.6907901763916016});
}

TEST(TorchGenerator, MatchesConsecutiveDrawsAndKeepsTheCachedNormal) {
  // Seed 2^40 + 123; shapes 3, 37, 4 in this order from one generator. The
  // second normal of the first draw's last pair opens the third draw.
  TorchGenerator generator((1ULL << 40U) + 123);
  expect_near(draw(generator, Shape{3}),
              {-0.11146711558103561, 0.12036294490098953, -0.3696345090866089});
  expect_near(draw(generator, Shape{37}),
              {0.4688628911972046,   0.7524921298027039,   -0.642166018486023,
               -0.8128148913383484,  0.24026133120059967,  -0.5515920519828796,
               -0.5696947574615479,  1.007605791091919,    0.43242084980010986,
               -1.423472285270691,   0.5873985886573792,   -1.2896192073822021,
               -0.3155498504638672,  -0.36557674407958984, -0.6604904532432556,
               -0.11041148006916046, -0.16056378185749054, -0.4014880061149597,
               0.6957241296768188,   -1.8060526847839355,  1.8959673643112183,
               -0.42103812098503113, -0.9619980454444885,  1.2824753522872925,
               0.8768370151519775,   1.6221439838409424,   -1.4779419898986816,
               1.1331069469451904,   -1.2202903032302856,  -1.1285172700881958,
               0.4135102331638336,   0.2891692817211151,   2.247331380844116,
               -0.8036359548568726,  -0.28084245324134827, 0.7696762681007385,
               -0.6595596075057983});
  expect_near(draw(generator, Shape{4}),
              {-0.2404179722070694, -0.29056498408317566, 0.8056960105895996,
               0.6832696199417114});
}

TEST(TorchGenerator, MatchesTheSumsOfTwoLatents) {
  // Seed 0, shape [1, 4, 64, 64] twice: a.double().sum() and
  // b.double().abs().sum().
  TorchGenerator generator(0);
  double sum = 0.0;
  for (const float value : draw(generator, Shape{1, 4, 64, 64})) {
    sum += value;
  }
  double magnitude = 0.0;
  for (const float value : draw(generator, Shape{1, 4, 64, 64})) {
    magnitude += std::abs(value);
  }
  EXPECT_NEAR(sum, -124.11269989912398, 1e-3);
  EXPECT_NEAR(magnitude, 13085.051722421558, 1e-3);
}

TEST(TorchGenerator, CopyContinuesWithTheSameNumbers) {
  TorchGenerator generator(11);
  (void)draw(generator, Shape{3});
  TorchGenerator copy = generator;
  EXPECT_EQ(draw(copy, Shape{5}), draw(generator, Shape{5}));
  EXPECT_EQ(draw(copy, Shape{700}), draw(generator, Shape{700}));
}

TEST(TorchGenerator, UsesTheLowHalfOfTheSeedAsTorchDoes) {
  TorchGenerator small(123);
  TorchGenerator large((1ULL << 40U) + 123);
  EXPECT_EQ(draw(small, Shape{20}), draw(large, Shape{20}));
}

TEST(TorchGenerator, EmptyDrawLeavesTheStateAlone) {
  TorchGenerator generator(11);
  TorchGenerator untouched(11);
  EXPECT_TRUE(draw(generator, Shape{0}).empty());
  EXPECT_EQ(draw(generator, Shape{3}), draw(untouched, Shape{3}));
}

TEST(TorchGenerator, RefusesAnotherElementType) {
  TorchGenerator generator(1);
  Tensor out(Shape{4}, DType::bf16);
  EXPECT_THROW(generator.fill_normal(out), Error);
}

}  // namespace
}  // namespace troupe
