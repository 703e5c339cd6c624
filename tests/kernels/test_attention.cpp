#include "kernels/attention.h"
#include "kernels/core/error.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct HeadSize {
  std::int64_t b, queries, keys, heads, head_dim;
};

constexpr HeadSize kHeadSizes[] = {{0, 3, 3, 2, 4},    {1, 0, 3, 2, 4},
                                   {1, 1, 1, 1, 1},    {2, 5, 7, 3, 9},
                                   {1, 64, 77, 2, 72}, {2, 33, 256, 1, 40},
                                   {1, 300, 19, 1, 8}, {1, 70, 4100, 1, 16}};

std::vector<double> attended(const HeadsView& q, const HeadsView& k,
                             const HeadsView& v, std::int64_t heads,
                             std::int64_t head_dim) {
  const std::int64_t items = q.base.dim(0);
  const std::int64_t queries = q.base.dim(1);
  const std::int64_t keys = k.base.dim(1);
  const auto at = [&](const HeadsView& view, std::int64_t b, std::int64_t n,
                      std::int64_t h, std::int64_t d) {
    return value_at(view.base, (b * view.base.dim(1) + n) * view.base.dim(2) +
                                   view.column + h * head_dim + d);
  };
  std::vector<double> out(
      static_cast<std::size_t>(items * queries * heads * head_dim));
  std::vector<double> p(static_cast<std::size_t>(keys));
  for (std::int64_t b = 0; b < items; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < queries; ++i) {
        double total = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < head_dim; ++d) {
            dot += at(q, b, i, h, d) * at(k, b, j, h, d);
          }
          p[j] = std::exp(dot / std::sqrt(static_cast<double>(head_dim)));
          total += p[j];
        }
        for (std::int64_t d = 0; d < head_dim; ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            sum += p[j] / total * at(v, b, j, h, d);
          }
          out[((b * queries + i) * heads + h) * head_dim + d] = sum;
        }
      }
    }
  }
  return out;
}

TEST(Attention, MatchesADoubleReferenceForSeparateOperands) {
  for (const DType dtype : compute_types()) {
    for (const HeadSize& s : kHeadSizes) {
      ExecContext ctx(2);
      const std::int64_t width = s.heads * s.head_dim;
      const HeadsView q{random_tensor({s.b, s.queries, width}, dtype, 1, 2)};
      const HeadsView k{random_tensor({s.b, s.keys, width}, dtype, 2, 2)};
      const HeadsView v{random_tensor({s.b, s.keys, width}, dtype, 3)};
      Guarded out({s.b, s.queries, width}, dtype, 1);
      attention(ctx, q, k, v, s.heads, s.head_dim, out.tensor);
      EXPECT_TRUE(out.intact());
      expect_near(out.tensor, attended(q, k, v, s.heads, s.head_dim),
                  unit_of(dtype), dtype == DType::bf16 ? 4e-3 : 4e-6);
    }
  }
}

TEST(Attention, ReadsHeadsInPlaceFromAFusedProjection) {
  for (const DType dtype : compute_types()) {
    ExecContext ctx(3);
    const Tensor fused = random_tensor({2, 37, 3 * 2 * 24}, dtype, 4);
    const HeadsView q{fused, 0};
    const HeadsView k{fused, 48};
    const HeadsView v{fused, 96};
    Guarded out({2, 37, 48}, dtype);
    attention(ctx, q, k, v, 2, 24, out.tensor);
    EXPECT_TRUE(out.intact());
    expect_near(out.tensor, attended(q, k, v, 2, 24), unit_of(dtype),
                dtype == DType::bf16 ? 4e-3 : 2e-6);
  }
}

TEST(Attention, SurvivesLogitsThatOverflowExp) {
  ExecContext ctx;
  const Tensor q = random_tensor({1, 4, 8}, DType::f32, 5, 100);
  const Tensor k = random_tensor({1, 6, 8}, DType::f32, 6, 100);
  const Tensor v = random_tensor({1, 6, 8}, DType::f32, 7);
  Guarded out({1, 4, 8}, DType::f32);
  attention(ctx, {q}, {k}, {v}, 1, 8, out.tensor);
  for (const double value : values_of(out.tensor)) {
    EXPECT_LE(std::abs(value), 1.0);
  }
}

TEST(Attention, KeepsMemoryBelowAllLogitsOfALongHead) {
  ExecContext ctx;
  const Tensor x = random_tensor({1, 4096, 8}, DType::f32, 8);
  Guarded out({1, 4096, 8}, DType::f32);
  attention(ctx, {x}, {x}, {x}, 1, 8, out.tensor);
  EXPECT_LT(ctx.workspace().capacity_bytes(), std::size_t{4} << 20U);
}

TEST(Attention, PassesNanOn) {
  ExecContext ctx;
  Tensor q = random_tensor({1, 3, 4}, DType::f32, 9);
  q.data<float>()[5] = NAN;
  const Tensor k = random_tensor({1, 5, 4}, DType::f32, 10);
  Guarded out({1, 3, 4}, DType::f32);
  attention(ctx, {q}, {k}, {k}, 1, 4, out.tensor);
  EXPECT_TRUE(std::isfinite(value_at(out.tensor, 0)));
  EXPECT_TRUE(std::isnan(value_at(out.tensor, 4)));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor x({1, 2, 8}, DType::f32);
  const auto code_of = [&](const HeadsView& q, const HeadsView& k,
                           const HeadsView& v, std::int64_t heads) {
    Tensor out({1, 2, 8}, DType::f32);
    try {
      attention(ctx, q, k, v, heads, 4, out);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::internal;
  };
  EXPECT_EQ(code_of({x}, {x}, {x}, 0), Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {x}, {x}, 3), Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {x, 1}, {x}, 2), Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {Tensor({1, 0, 8}, DType::f32)},
                    {Tensor({1, 0, 8}, DType::f32)}, 2),
            Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {Tensor({1, 3, 8}, DType::f32)}, {x}, 2),
            Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {Tensor({1, 2, 8}, DType::bf16)}, {x}, 2),
            Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::kernels
