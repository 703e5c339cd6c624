#include "kernels/core/error.h"
#include "kernels/rope.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct RopeCase {
  std::int64_t items, tokens, heads, head_dim;
};

constexpr RopeCase kRopeCases[] = {
    {0, 2, 1, 4},  {1, 0, 1, 4},   {1, 1, 1, 2},   {2, 19, 3, 6},
    {1, 5, 4, 64}, {2, 33, 2, 72}, {1, 40, 3, 128}};

/// The whole matrix in double.
std::vector<double> turned(const RopeCase& c, const Tensor& x,
                           std::int64_t column, const Tensor& weight,
                           const Tensor& cosines, const Tensor& sines,
                           double eps) {
  std::vector<double> out = values_of(x);
  const std::int64_t width = c.heads * c.head_dim;
  const std::int64_t normed = weight.dim(0);
  for (std::int64_t token = 0; token < c.items * c.tokens; ++token) {
    double* row = out.data() + token * x.dim(2) + column;
    for (std::int64_t begin = 0; begin < width; begin += normed) {
      double squares = 0;
      for (std::int64_t i = 0; i < normed; ++i) {
        squares += row[begin + i] * row[begin + i];
      }
      for (std::int64_t i = 0; i < normed; ++i) {
        row[begin + i] *=
            value_at(weight, i) /
            std::sqrt(squares / static_cast<double>(normed) + eps);
      }
    }
    for (std::int64_t i = 0; i < width && !cosines.empty(); i += 2) {
      const std::int64_t angle =
          token % c.tokens * (c.head_dim / 2) + i % c.head_dim / 2;
      const double a = row[i];
      const double b = row[i + 1];
      const double cosine = value_at(cosines, angle);
      const double sine = value_at(sines, angle);
      row[i] = a * cosine - b * sine;
      row[i + 1] = a * sine + b * cosine;
    }
  }
  return out;
}

TEST(RmsNormRope, MatchesADoubleReferenceAndLeavesOtherColumnsAlone) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const RopeCase& c : kRopeCases) {
      for (const bool across : {false, true}) {
        for (const bool rotates : {false, true}) {
          ExecContext ctx(2);
          const std::int64_t column = 3;
          const std::int64_t width = c.heads * c.head_dim;
          const Tensor x =
              random_tensor({c.items, c.tokens, width + 7}, dtype, 1, 3);
          const Tensor weight =
              random_tensor({across ? width : c.head_dim}, DType::f32, 2);
          const Shape table{rotates ? c.tokens : 0, c.head_dim / 2};
          const Tensor cosines = random_tensor(table, DType::f32, 3);
          const Tensor sines = random_tensor(table, DType::f32, 4);
          HeadsView view{x.clone(), column};
          rms_norm_rope(ctx, weight, cosines, sines, c.heads, c.head_dim, 1e-6F,
                        view);
          expect_near(
              view.base,
              turned(c, x, column, weight, cosines, sines, double{1e-6F}),
              dtype == DType::bf16 ? unit_of(dtype) : 2e-6, 2e-6);
          for (std::int64_t i = 0; i < x.num_elements(); ++i) {
            const std::int64_t at = i % (width + 7);
            if (at < column || at >= column + width) {
              ASSERT_EQ(value_at(view.base, i), value_at(x, i));
            }
          }
        }
      }
    }
  }
}

TEST(RmsNormRope, ATokensBitsDoNotDependOnThreadsOrItems) {
  const Tensor x = random_tensor({4, 37, 3 * 48}, DType::bf16, 1);
  const Tensor weight = random_tensor({16}, DType::f32, 2);
  const Tensor cosines = random_tensor({37, 8}, DType::f32, 3);
  const Tensor sines = random_tensor({37, 8}, DType::f32, 4);
  ExecContext three(3);
  ExecContext one(1);
  HeadsView all{x.clone(), 48};
  rms_norm_rope(three, weight, cosines, sines, 3, 16, 1e-6F, all);
  HeadsView item{x.slice(2, 3).clone(), 48};
  rms_norm_rope(one, weight, cosines, sines, 3, 16, 1e-6F, item);
  EXPECT_TRUE(bytes_equal(item.base, all.base.slice(2, 3)));
}

// Position 3 of FLUX's first axis (16 of 128 columns): angles 3 / θ^(2i/16).
TEST(RmsNormRope, TurnsNeighboursLikeFlux) {
  ExecContext ctx;
  constexpr float kCosine = -0.989992F;
  constexpr float kSine = 0.14112F;
  const Tensor cosines =
      Tensor::from<float>(std::vector<float>{kCosine}, {1, 1});
  const Tensor sines = Tensor::from<float>(std::vector<float>{kSine}, {1, 1});
  const Tensor weight = Tensor::from<float>(std::vector<float>{1, 1}, {2});
  HeadsView x{Tensor::from<float>(std::vector<float>{1, -1}, {1, 1, 2}), 0};
  rms_norm_rope(ctx, weight, cosines, sines, 1, 2, 0, x);
  expect_near(x.base, {kCosine + kSine, kSine - kCosine}, 1e-6, 0);
}

TEST(RmsNormRope, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor base({2, 3, 16}, DType::f32);
  const Tensor table({3, 4}, DType::f32);
  const Tensor none({0}, DType::f32);
  const Tensor eight({8}, DType::f32);
  const auto call = [&](const Tensor& weight, const Tensor& cosines,
                        const Tensor& sines, std::int64_t heads,
                        std::int64_t head_dim, HeadsView x) {
    rms_norm_rope(ctx, weight, cosines, sines, heads, head_dim, 0, x);
  };
  EXPECT_NO_THROW(call(eight, none, none, 2, 8, {base.clone(), 0}));
  EXPECT_THROW(call(eight, table, table, 2, 8, {base.clone(), 1}), Error);
  EXPECT_THROW(call(eight, table, none, 2, 8, {base.clone(), 0}), Error);
  EXPECT_THROW(
      call(eight, Tensor({2, 4}, DType::f32), table, 2, 8, {base.clone(), 0}),
      Error);
  EXPECT_THROW(
      call(Tensor({7}, DType::f32), none, none, 2, 8, {base.clone(), 0}),
      Error);
  EXPECT_THROW(
      call(Tensor({5}, DType::f32), table, table, 2, 5, {base.clone(), 0}),
      Error);
  EXPECT_THROW(call(eight, none, none, -2, 8, {base.clone(), 0}), Error);
  EXPECT_THROW(
      call(eight, none, none, 2, 8, {Tensor({2, 3, 16}, DType::f16), 0}),
      Error);
}

}  // namespace
}  // namespace troupe::kernels
