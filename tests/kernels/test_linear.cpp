#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"
#include "kernels/elementwise.h"
#include "kernels/isa.h"
#include "kernels/linear.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct LinearSize {
  std::int64_t b, m, n, k;
};

constexpr LinearSize kLinearSizes[] = {
    {0, 3, 5, 7},
    {2, 0, 5, 7},
    {1, 1, 1, 1},
    {2, 1, 17, 33},
    {3, 7, 1, 5},
    {1, 5, 9, 1},
    {2, 31, 65, 63},
    // Where oneDNN 2.6 fails on a tile unit: SIGILL, and wrong results.
    {1, 66, 33, 63},
    {1, 35, 72, 63},
    {1, 36, 80, 63},
    {1, 257, 97, 40},
    {2, 16, 200, 65},
    {1, 300, 449, 72},
    {1, 17, 385, 1153},
    // Whole tiles: one row, one slice of depth and more.
    {3, 1, 64, 32},
    {2, 77, 320, 96},
    {2, 33, 96, 2336}};

struct Product {
  double value;
  double limit;
};

/// x · weightᵀ + bias with the error that f32 sums may have.
///
/// Rounding a partial sum s_k errs by at most u·|s_k|, u = 2⁻²⁴, evenly spread:
/// variance u²·s_k²/3, and the errors of K steps are independent (Higham & Mary
/// 2019, SIAM J. Sci. Comput. 41). s_k depends on the order of summation, which
/// is the library's: the limit adds the squares of left-to-right sums and what
/// they are on average, (K/2)·Σ(xw)², and allows four deviations of that. Over
/// a million elements of eleven shapes the largest error was 3.04 of them.
std::vector<Product> multiplied(const Tensor& x, const Tensor& weight,
                                const Tensor& bias, Activation activation) {
  constexpr double u = 0x1p-24;
  constexpr double kLargestSlope = 1.13;  // of silu and both gelus
  const std::int64_t rows = x.dim(0) * x.dim(1);
  const std::int64_t k = x.dim(2);
  const std::int64_t n = weight.dim(0);
  std::vector<Product> out;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0;
      double squares = 0;
      double path = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double term =
            value_at(x, r * k + i) * value_at(weight, c * k + i);
        sum += term;
        squares += term * term;
        path += sum * sum;
      }
      double limit =
          4 * u * std::sqrt((path + static_cast<double>(k) / 2 * squares) / 3);
      if (!bias.empty()) {
        sum += value_at(bias, c);
        limit += u * std::abs(sum);
      }
      const double value = apply(activation, sum);
      if (activation != Activation::none) {
        limit = kLargestSlope * limit +
                activation_limit(activation, sum, DType::f32) * std::abs(value);
      }
      out.push_back({value, limit});
    }
  }
  return out;
}

/// `stored`: relative error of writing the result.
void expect_products(const Tensor& got, const std::vector<Product>& expected,
                     double stored = 0) {
  ASSERT_EQ(static_cast<std::size_t>(got.num_elements()), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [value, limit] = expected[i];
    ASSERT_LE(std::abs(value_at(got, static_cast<std::int64_t>(i)) - value),
              limit + stored * (std::abs(value) + limit))
        << "element " << i << " of " << to_string(got.shape());
  }
}

TEST(Linear, MatchesADoubleReferenceForEverySizeTypeAndThreadCount) {
  for (const DType dtype : compute_types()) {
    for (const LinearSize& s : kLinearSizes) {
      ExecContext ctx(s.n % 2 == 0 ? 1 : 3);
      const Tensor x = random_tensor({s.b, s.m, s.k}, dtype, 1);
      const Tensor weight = random_tensor({s.n, s.k}, dtype, 2, 0.5);
      const Tensor bias = random_tensor({s.n}, DType::f32, 3);
      const PackedLinear packed(ctx, weight, bias, dtype);
      Guarded out({s.b, s.m, s.n}, DType::f32, 1);
      linear(ctx, x, packed, Activation::none, out.tensor);
      EXPECT_TRUE(out.intact());
      const auto expected = multiplied(x, weight, bias, Activation::none);
      expect_products(out.tensor, expected);
      Guarded narrow({s.b, s.m, s.n}, dtype, 1);
      linear(ctx, x, packed, Activation::none, narrow.tensor);
      EXPECT_TRUE(narrow.intact());
      expect_products(narrow.tensor, expected,
                      dtype == DType::bf16 ? unit_of(dtype) : 0);
    }
  }
}

TEST(Linear, AppliesEveryActivationBehindTheBias) {
  for (const DType dtype : compute_types()) {
    for (const Activation activation : kActivations) {
      ExecContext ctx(2);
      const Tensor x = random_tensor({2, 19, 33}, dtype, 4);
      const Tensor weight = random_tensor({70, 33}, dtype, 5, 0.5);
      const Tensor bias = random_tensor({70}, DType::f32, 6);
      const PackedLinear packed(ctx, weight, bias, dtype);
      Guarded out({2, 19, 70}, DType::f32);
      linear(ctx, x, packed, activation, out.tensor);
      EXPECT_TRUE(out.intact());
      expect_products(out.tensor, multiplied(x, weight, bias, activation));
    }
  }
}

TEST(Linear, WorksWithoutBias) {
  ExecContext ctx;
  const Tensor x = random_tensor({1, 3, 8}, DType::f32, 7);
  const Tensor weight = random_tensor({6, 8}, DType::f32, 8);
  const PackedLinear packed(ctx, weight, Tensor(), DType::f32);
  Guarded out({1, 3, 6}, DType::f32);
  linear(ctx, x, packed, Activation::none, out.tensor);
  expect_products(out.tensor,
                  multiplied(x, weight, Tensor(), Activation::none));
}

TEST(Linear, PacksWeightsOfOtherTypes) {
  ExecContext ctx;
  const Tensor x = random_tensor({1, 5, 9}, DType::f32, 9);
  const Tensor weight = random_tensor({4, 9}, DType::bf16, 10);
  const PackedLinear packed(ctx, weight, Tensor(), DType::f32);
  Guarded out({1, 5, 4}, DType::f32);
  linear(ctx, x, packed, Activation::none, out.tensor);
  expect_products(out.tensor,
                  multiplied(x, weight, Tensor(), Activation::none));

  Tensor half({1, 2}, DType::f16);
  half.data<float16>()[0] = {0x3c00};  // 1
  half.data<float16>()[1] = {0xc000};  // −2
  for (const DType dtype : compute_types()) {
    const PackedLinear from_half(ctx, half, Tensor(), dtype);
    Tensor two({1, 1, 2}, dtype);
    set_value(two, 0, 3);
    set_value(two, 1, 0.5);
    Guarded one({1, 1, 1}, DType::f32);
    linear(ctx, two, from_half, Activation::none, one.tensor);
    EXPECT_EQ(value_at(one.tensor, 0), 2.0);
  }
}

TEST(Linear, FormsThatAddHaveTheBitsOfTheTwoOps) {
  for (const DType dtype : compute_types()) {
    ExecContext ctx(2);
    const Tensor x = random_tensor({3, 33, 40}, dtype, 11);
    const Tensor weight = random_tensor({211, 40}, dtype, 12);
    const Tensor bias = random_tensor({211}, DType::f32, 13);
    const PackedLinear packed(ctx, weight, bias, dtype);
    const Tensor modulation = random_tensor({3, 500}, DType::f32, 14);
    const Tensor start = random_tensor({3, 33, 211}, DType::f32, 15);

    Guarded y({3, 33, 211}, DType::f32);
    linear(ctx, x, packed, Activation::none, y.tensor);
    Tensor expected = start.clone();
    add_gated(ctx, modulation, 289, y.tensor, expected);

    Guarded residual({3, 33, 211}, DType::f32);
    std::memcpy(residual.tensor.bytes().data(), start.bytes().data(),
                start.num_bytes());
    linear_add_gated(ctx, x, packed, modulation, 289, residual.tensor);
    EXPECT_TRUE(residual.intact());
    EXPECT_TRUE(bytes_equal(residual.tensor, expected));

    add(ctx, y.tensor, expected);
    linear_add(ctx, x, packed, residual.tensor);
    EXPECT_TRUE(residual.intact());
    EXPECT_TRUE(bytes_equal(residual.tensor, expected));
  }
}

TEST(Linear, ReportsWhatItHolds) {
  ExecContext ctx;
  const PackedLinear none;
  EXPECT_EQ(none.in_features(), 0);
  EXPECT_EQ(none.out_features(), 0);
  EXPECT_EQ(none.num_bytes(), 0U);
  const PackedLinear packed(ctx, random_tensor({100, 30}, DType::f32, 1),
                            Tensor(), DType::f32);
  EXPECT_EQ(packed.in_features(), 30);
  EXPECT_EQ(packed.out_features(), 100);
  EXPECT_GE(packed.num_bytes(), std::size_t{100 * 30 * 4});
}

TEST(Linear, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor weight = random_tensor({4, 3}, DType::f32, 1);
  const PackedLinear packed(ctx, weight, Tensor(), DType::f32);
  const auto code_of = [&](const Tensor& x, Tensor out) {
    try {
      linear(ctx, x, packed, Activation::none, out);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::internal;
  };
  const Tensor x({1, 2, 3}, DType::f32);
  EXPECT_EQ(
      code_of(Tensor({1, 2, 5}, DType::f32), Tensor({1, 2, 4}, DType::f32)),
      Errc::shape_mismatch);
  EXPECT_EQ(code_of(Tensor({2, 3}, DType::f32), Tensor({1, 2, 4}, DType::f32)),
            Errc::shape_mismatch);
  EXPECT_EQ(code_of(x, Tensor({1, 2, 3}, DType::f32)), Errc::shape_mismatch);
  EXPECT_EQ(code_of(x, Tensor({1, 2, 4}, DType::i64)), Errc::invalid_argument);
  EXPECT_EQ(
      code_of(Tensor({1, 2, 3}, DType::bf16), Tensor({1, 2, 4}, DType::f32)),
      Errc::invalid_argument);
  Tensor out({1, 2, 4}, DType::f32);
  EXPECT_THROW(linear(ctx, x, PackedLinear(), Activation::none, out), Error);
  EXPECT_THROW(
      PackedLinear(ctx, Tensor({0, 3}, DType::f32), Tensor(), DType::f32),
      Error);
  EXPECT_THROW(PackedLinear(ctx, weight, Tensor({3}, DType::f32), DType::f32),
               Error);
}

TEST(Linear, SaysWhenTheComputeTypeIsUnsupported) {
  ExecContext ctx;
  const Tensor weight = random_tensor({4, 3}, DType::f32, 1);
  std::vector<DType> refused{DType::f16, DType::i64};
  if (!supports(DType::bf16)) {
    refused.push_back(DType::bf16);
  }
  for (const DType dtype : refused) {
    try {
      const PackedLinear packed(ctx, weight, Tensor(), dtype);
      FAIL() << to_string(dtype);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
      EXPECT_FALSE(error.hint().empty());
    }
  }
}

TEST(VectorIsa, FollowsTheCpuWhateverTheLibraryIsHeldTo) {
  const bool wide = cpu_features().find("avx512f") != std::string::npos;
  EXPECT_TRUE(std::string(vector_isa()).starts_with(wide ? "AVX3" : "AVX2"))
      << vector_isa();
}

TEST(MatrixLibraryVersion, IsThreeNumbers) {
  int numbers[3] = {};
  ASSERT_EQ(std::sscanf(matrix_library_version().c_str(), "%d.%d.%d",
                        &numbers[0], &numbers[1], &numbers[2]),
            3);
  EXPECT_GE(numbers[0], 2);
}

TEST(Supports, Bf16NeedsAvx512) {
  EXPECT_TRUE(supports(DType::f32));
  EXPECT_EQ(supports(DType::bf16),
            std::string(cpu_isa()).starts_with("avx512"));
}

}  // namespace
}  // namespace troupe::kernels
