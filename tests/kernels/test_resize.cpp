#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/resize.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct Sides {
  std::int64_t height, width;
};

/// Element i is ((37 i) modulo 11 − 5) ÷ 4.
Tensor pattern(std::int64_t channels, Sides sides) {
  Tensor x({channels, sides.height, sides.width}, DType::f32);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    x.data<float>()[i] = static_cast<float>(i * 37 % 11 - 5) / 4.0F;
  }
  return x;
}

/// The position between pixel centres, in double.
double at(const Tensor& x, std::int64_t channel, double row, double column) {
  const auto inside = [](double position, std::int64_t side) {
    return std::clamp(position, 0.0, static_cast<double>(side - 1));
  };
  row = inside(row, x.dim(1));
  column = inside(column, x.dim(2));
  const auto top = static_cast<std::int64_t>(row);
  const auto left = static_cast<std::int64_t>(column);
  const auto pixel = [&](std::int64_t r, std::int64_t c) {
    r = std::min(r, x.dim(1) - 1);
    c = std::min(c, x.dim(2) - 1);
    return value_at(x, (channel * x.dim(1) + r) * x.dim(2) + c);
  };
  const double down = row - static_cast<double>(top);
  const double right = column - static_cast<double>(left);
  return (1 - down) *
             ((1 - right) * pixel(top, left) + right * pixel(top, left + 1)) +
         down * ((1 - right) * pixel(top + 1, left) +
                 right * pixel(top + 1, left + 1));
}

/// A picture of `scaled` sides, of which the middle is `wanted`.
std::vector<double> expected(const Tensor& x, Sides scaled, Sides wanted) {
  std::vector<double> values;
  const auto position = [](std::int64_t i, std::int64_t from, std::int64_t to,
                           std::int64_t shown) {
    const auto pixel = static_cast<double>((to - shown) / 2 + i);
    return static_cast<double>(from) / static_cast<double>(to) * (pixel + 0.5) -
           0.5;
  };
  for (std::int64_t c = 0; c < x.dim(0); ++c) {
    for (std::int64_t r = 0; r < wanted.height; ++r) {
      for (std::int64_t i = 0; i < wanted.width; ++i) {
        values.push_back(at(x, c,
                            position(r, x.dim(1), scaled.height, wanted.height),
                            position(i, x.dim(2), scaled.width, wanted.width)));
      }
    }
  }
  return values;
}

void expect_middle_of(Sides from, Sides scaled, Sides wanted) {
  ExecContext ctx;
  const Tensor x = pattern(3, from);
  Guarded out({3, wanted.height, wanted.width}, DType::f32, 1);
  resize_and_crop(ctx, x, out.tensor);
  EXPECT_TRUE(out.intact());
  // Positions are f32, and neighbours are up to 2.5 apart.
  const auto longest = static_cast<double>(std::max(from.height, from.width));
  expect_near(out.tensor, expected(x, scaled, wanted), 0, 4e-7 * longest);
}

TEST(ResizeAndCrop, CoversThePictureAndKeepsItsMiddle) {
  expect_middle_of({208, 304}, {40, 58}, {40, 58});  // smaller
  expect_middle_of({208, 304}, {40, 58}, {40, 51});  // 7 columns too many
  expect_middle_of({208, 304}, {60, 89}, {52, 89});  // 8 rows too many
  expect_middle_of({24, 40}, {60, 100}, {50, 100});  // larger
  expect_middle_of({24, 40}, {24, 40}, {24, 31});    // cut alone
  expect_middle_of({1, 1}, {5, 5}, {3, 5});
}

/// What resize_and_crop_tensor of diffusers 0.42.1 makes of the same patterns.
TEST(ResizeAndCrop, GivesTheNumbersOfDiffusers) {
  const auto made = [](Sides from, Sides to) {
    ExecContext ctx;
    Tensor out({1, to.height, to.width}, DType::f32);
    resize_and_crop(ctx, pattern(1, from), out);
    return out;
  };
  expect_near(
      made({2, 3}, {5, 4}),
      {-1.10714293,  -0.678571403, -0.25,        0.178571463,  -1.08214295,
       -0.653571427, -0.224999994, 0.203571454,  -0.982142925, -0.553571403,
       -0.125,       0.303571463,  -0.882142842, -0.453571409, -0.0249999911,
       0.403571457,  -0.857142925, -0.428571403, 0.0,          0.428571463},
      0, 2e-7);
  expect_near(made({6, 4}, {3, 3}),
              {-0.770833313, 0.21875, -0.510416865, 0.760416687, 0.03125,
               -0.697916865, 0.114583343, -0.15625, 0.145833492},
              0, 2e-7);
  expect_near(made({3, 5}, {3, 2}), {-0.25, 0.75, -0.75, 0.25, -1.25, -0.25}, 0,
              0);
}

TEST(ResizeAndCrop, IsNotOnePixelShortWhereRoundingIs) {
  // 49 · (1 ÷ 49) is less than 1.
  expect_middle_of({49, 49}, {1, 1}, {1, 1});
  // 832 · max(120 ÷ 832, 160 ÷ 1152) is less than 120.
  expect_middle_of({832, 1152}, {120, 166}, {120, 160});
}

TEST(ResizeAndCrop, OfEqualSidesIsACopy) {
  ExecContext ctx;
  const Tensor x = pattern(2, {5, 7});
  Tensor out({2, 5, 7}, DType::f32);
  resize_and_crop(ctx, x, out);
  EXPECT_EQ(values_of(out), values_of(x));
}

TEST(ResizeAndCrop, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Tensor x = pattern(3, {37, 53});
  ExecContext one;
  Tensor expected({3, 90, 61}, DType::f32);
  resize_and_crop(one, x, expected);
  for (const int threads : {2, 3, 8}) {
    ExecContext ctx(threads);
    Tensor out({3, 90, 61}, DType::f32);
    resize_and_crop(ctx, x, out);
    EXPECT_EQ(values_of(out), values_of(expected)) << threads;
  }
}

TEST(ResizeAndCrop, RefusesWhatIsNoPicture) {
  ExecContext ctx;
  const Tensor x = pattern(3, {4, 4});
  const auto refuses = [&](const Tensor& from, Tensor to) {
    EXPECT_THROW(resize_and_crop(ctx, from, to), Error)
        << to_string(to.shape());
  };
  refuses(x, Tensor({2, 4, 4}, DType::f32));
  refuses(x, Tensor({3, 0, 4}, DType::f32));
  refuses(x, Tensor({3, 16}, DType::f32));
  refuses(x, Tensor({3, 4, 4}, DType::bf16));
  refuses(Tensor({3, 0, 4}, DType::f32), Tensor({3, 4, 4}, DType::f32));
}

}  // namespace
}  // namespace troupe::kernels
